package command_test

import (
	"strings"
	"testing"

	"github.com/seedqueue/sq/cli/internal/command"
)

// What was typed wrongly is named, and what would be right.
func TestWrongArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"produce"}, "sq: TOPIC is missing: sq produce TOPIC [VALUE]"},
		{[]string{"produce", "orders", "a", "b"}, `sq: "b" is one argument too many`},
		{[]string{"topic", "describe"}, "sq: NAME is missing: sq topic describe NAME"},
		{[]string{"topic", "descrbe", "orders"}, "did you mean describe?"},
		{[]string{"topic", "update", "orders"}, "did you mean alter?"},
		{[]string{"bench", "xyz"}, `sq: unknown command "xyz" for "sq bench"` + "\n"},
	} {
		code, out, errs := run(t, command.Env{}, c.args...)
		if code != 2 || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("sq %s: code %d, %q, %q", strings.Join(c.args, " "), code, out, errs)
		}
	}
}

func TestVersionAndHelp(t *testing.T) {
	if flag, command := ok(t, command.Env{}, "--version"), ok(t, command.Env{}, "version"); flag != command || !strings.HasPrefix(flag, "sq ") {
		t.Errorf("%q %q", flag, command)
	}
	for _, args := range [][]string{{"--help"}, {"consume", "--help"}, {"help", "topic", "create"}} {
		if out := ok(t, command.Env{}, args...); strings.Contains(out, "[=") || !strings.Contains(out, "Usage:") {
			t.Errorf("sq %s: %q", strings.Join(args, " "), out)
		}
	}
}
