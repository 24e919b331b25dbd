package command

import (
	"io"
	"strings"
	"time"
)

// Env is what a command sees of the process.
type Env struct {
	Args    []string // without the program's name
	Environ []string // as os.Environ gives it
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	// StderrTerminal: somebody watches standard error.
	StderrTerminal bool
	// StdinTerminal: standard input is a keyboard, not a file or pipe.
	StdinTerminal bool
	Now           func() time.Time
}

// lookup gives the first variable that is set, or the default.
func (e *Env) lookup(fallback string, names ...string) string {
	for _, name := range names {
		for _, variable := range e.Environ {
			if value, ok := strings.CutPrefix(variable, name+"="); ok && value != "" {
				return value
			}
		}
	}
	return fallback
}
