// Package command is the command line of `sq`: what can be typed, what it prints and how it ends.
//
//  1. Exit codes: 0 done, 1 failed, 2 not understood.
//  2. Standard output has results only, so that it can be piped; standard error has errors, notes, and progress if it is a terminal.
//  3. An error says what was attempted, why it failed, and what to do next.
//  4. What a flag sets, SQ_* can set where that is named in the flag's help; the flag wins.
//  5. Nothing is read from the process but through Env.
//
// Called by cmd/sq. Run is called once a process. Work is in the packages beside: dev, line, record, load.
package command
