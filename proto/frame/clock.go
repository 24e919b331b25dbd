package frame

import "time"

// now is the one place where this package looks at the clock: deadlines of sockets and of contexts are the operating system's time, and
// proto cannot import a clock of SQ's.
func now() time.Time { return time.Now() }
