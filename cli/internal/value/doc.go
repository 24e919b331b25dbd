// Package value has what can be typed as the value of a flag: sizes, durations with days, times and choices.
//
//  1. A value that is not understood is refused with what is legal. Zero shows as nothing in a help text.
//
// Called by command. Each implements pflag.Value over a variable of the caller.
package value
