package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// text is a flag whose value is read later, with those of the other sources.
type text struct{ value, typeName string }

func (t *text) String() string     { return t.value }
func (t *text) Set(s string) error { t.value = s; return nil }
func (t *text) Type() string       { return t.typeName }

func (l *loader) flags() *pflag.FlagSet {
	flags := pflag.NewFlagSet(l.program, pflag.ContinueOnError)
	flags.Usage = func() {}
	flags.SortFlags = false
	for _, f := range l.fields {
		flag := flags.VarPF(&text{f.String(), f.typeName()}, f.key, "", f.describe())
		if f.typeName() == "bool" {
			flag.NoOptDefVal = "true"
		}
	}
	flags.String("config", "", "YAML `file` with settings by their flags' names")
	flags.Bool("print-config", false, "print the settings as YAML, secrets hidden, and exit")
	flags.Bool("version", false, "print the version and exit")
	flags.BoolP("help", "h", false, "print this and exit")
	return flags
}

func (f *field) describe() string {
	switch {
	case len(f.oneOf) > 0:
		return f.usage + " (" + strings.Join(f.oneOf, ", ") + ")"
	case f.low != "" || f.high != "":
		return f.usage + " (" + f.low + ".." + f.high + ")"
	default:
		return f.usage
	}
}

func (l *loader) help(flags *pflag.FlagSet) error {
	_, err := fmt.Fprintf(l.out, "Usage: %s [flags]\n\n%s\nA setting is taken from its flag, else from %s<NAME> in the environment (--node-id is %s), else from\n"+
		"the file of --config, else from its default.\n", l.program, strings.ReplaceAll(flags.FlagUsagesWrapped(120), "[=true|false]", "             "), envPrefix, variable("node-id"))
	return errors.Join(err, ErrDone)
}

// print writes a file that --config can read.
func (l *loader) print() error {
	document := yaml.Node{Kind: yaml.MappingNode}
	for _, f := range l.fields {
		key, value := &yaml.Node{}, &yaml.Node{}
		key.SetString(f.key)
		key.HeadComment = f.describe()
		value.SetString(f.String())
		if name := f.typeName(); name == "bool" || name == "int" || name == "number" {
			value.Tag = "" // plain, not quoted
		}
		document.Content = append(document.Content, key, value)
	}
	out, err := yaml.Marshal(&document)
	if err == nil {
		_, err = l.out.Write(out)
	}
	return errors.Join(err, ErrDone)
}
