package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/seedqueue/sq/libs/version"
)

// ErrDone is what Load gives after it has printed what was asked for: the program ends with success.
var ErrDone = errors.New("printed what was asked for")

const (
	envPrefix = "SQ_"
	// delimiter separates parents from children in koanf; no name of a setting has it.
	delimiter = "."
)

// Option changes what Load does.
type Option func(*loader)

// Output sets where --help, --version and --print-config print; without it, standard output.
func Output(w io.Writer) Option { return func(l *loader) { l.out = w } }

// Load reads the settings of program from args (without the program's name), environ (as os.Environ gives it), a YAML file and defaults.
func Load[T any](program string, args, environ []string, defaults T, options ...Option) (T, error) {
	settings := defaults
	l := &loader{program: program, out: os.Stdout, fields: fieldsOf(reflect.ValueOf(&settings).Elem()), merged: koanf.New(delimiter)}
	for _, option := range options {
		option(l)
	}
	if err := l.load(args, environ); err != nil {
		return defaults, err
	}
	if v, ok := any(&settings).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return defaults, fmt.Errorf("check settings: %w", err)
		}
	}
	if l.printConfig {
		return defaults, l.print()
	}
	return settings, nil
}

type loader struct {
	program     string
	out         io.Writer
	fields      []*field
	merged      *koanf.Koanf
	source      map[string]string // of a key: how the user named it there
	unknown     []error           // keys of the file that no setting has
	printConfig bool
}

func (l *loader) load(args, environ []string) error {
	flags := l.flags()
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("read flags: %w (see %s --help)", err, l.program)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("read flags: unexpected argument %q (see %s --help)", flags.Arg(0), l.program)
	}
	help, _ := flags.GetBool("help")
	if help {
		return l.help(flags)
	}
	if show, _ := flags.GetBool("version"); show {
		_, err := fmt.Fprintln(l.out, l.program, version.Version())
		return errors.Join(err, ErrDone)
	}
	l.printConfig, _ = flags.GetBool("print-config")
	l.source = map[string]string{}
	if err := l.layers(flags, environ); err != nil {
		return err
	}
	return l.fill()
}

// layers merges the sources, later ones over earlier ones.
func (l *loader) layers(flags *pflag.FlagSet, environ []string) error {
	fromEnv := koanf.New(delimiter)
	if err := fromEnv.Load(env.Provider(delimiter, env.Opt{
		Prefix: envPrefix, EnvironFunc: func() []string { return environ }, TransformFunc: fromVariable,
	}), nil); err != nil {
		return fmt.Errorf("read environment: %w", err)
	}
	fromFlags := koanf.New(delimiter)
	if err := fromFlags.Load(posflag.ProviderWithFlag(flags, delimiter, nil, func(f *pflag.Flag) (string, any) {
		return f.Name, f.Value.String()
	}), nil); err != nil {
		return fmt.Errorf("read flags: %w", err)
	}
	path := fromEnv.String("config")
	if fromFlags.Exists("config") {
		path = fromFlags.String("config")
	}
	if path != "" {
		fromFile := koanf.New(delimiter)
		if err := fromFile.Load(file.Provider(path), yaml.Parser()); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		l.noteUnknown(path, fromFile)
		if err := l.over(fromFile, func(key string) string { return path + ": " + key }); err != nil {
			return err
		}
	}
	if err := l.over(fromEnv, variable); err != nil {
		return err
	}
	return l.over(fromFlags, func(key string) string { return "--" + key })
}

func (l *loader) over(layer *koanf.Koanf, name func(key string) string) error {
	for _, key := range layer.Keys() {
		l.source[key] = name(key)
	}
	return l.merged.Merge(layer)
}

func variable(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

func fromVariable(name, value string) (string, any) {
	if value == "" {
		return "", nil
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(name, envPrefix), "_", "-")), value
}

func (l *loader) noteUnknown(path string, layer *koanf.Koanf) {
	for _, key := range layer.Keys() {
		if l.known(key) {
			continue
		}
		hint := ""
		if near := strings.NewReplacer(delimiter, "-", "_", "-").Replace(strings.ToLower(key)); l.known(near) {
			hint = fmt.Sprintf(" (it is %q)", near)
		}
		l.unknown = append(l.unknown, fmt.Errorf("%s: %s: no such setting%s", path, key, hint))
	}
}

func (l *loader) known(key string) bool {
	return slices.ContainsFunc(l.fields, func(f *field) bool { return f.key == key })
}

// fill sets the fields that a source has and checks the defaults of the others.
func (l *loader) fill() error {
	errs := l.unknown
	for _, f := range l.fields {
		raw := l.merged.Get(f.key)
		if raw == nil {
			if err := f.check(f.value); err != nil {
				errs = append(errs, fmt.Errorf("--%s is %s by default: %w", f.key, f.shown(f.String()), err))
			}
			continue
		}
		text, err := scalar(raw)
		if err == nil {
			err = f.set(text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %w", l.source[f.key], f.shown(text), err))
		}
	}
	return errors.Join(errs...)
}

// shown quotes a value for a message, unless it is a secret.
func (f *field) shown(text string) string {
	if f.typeName() == "secret" {
		return redacted
	}
	return fmt.Sprintf("%q", text)
}

// scalar gives a file's value as it would stand on a command line.
func scalar(raw any) (string, error) {
	switch value := raw.(type) {
	case map[string]any:
		return "", errors.New("has settings below it, but is one value")
	case []any:
		parts := make([]string, len(value))
		for i, part := range value {
			parts[i] = fmt.Sprint(part)
		}
		return strings.Join(parts, ","), nil
	default:
		return fmt.Sprint(value), nil
	}
}
