package command

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// takes checks the arguments by the command's Use line: NAME must be there, [NAME] may.
func takes(cmd *cobra.Command, args []string) error {
	names := strings.Fields(cmd.Use)[1:]
	for _, name := range names[min(len(args), len(names)):] {
		if !strings.HasPrefix(name, "[") {
			return fmt.Errorf("%s is missing: %s", name, cmd.UseLine())
		}
	}
	if len(args) > len(names) {
		return fmt.Errorf("%q is one argument too many (quote a value that has blanks): %s", args[len(names)], cmd.UseLine())
	}
	return nil
}

// takesCommand refuses what is none of the command's commands, and tells which one is near.
func takesCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	near := ""
	if names := cmd.SuggestionsFor(args[0]); len(names) > 0 {
		near = ": did you mean " + strings.Join(names, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), near)
}

// plainHelp takes the values out of the names of yes-or-no flags: their names alone are how they are used.
func plainHelp(root *cobra.Command, out io.Writer) {
	const values = "[=true|false]"
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		cmd.SetOut(&text)
		help(cmd, args)
		cmd.SetOut(out)
		_, _ = io.WriteString(out, strings.ReplaceAll(text.String(), values, strings.Repeat(" ", len(values))))
	})
}
