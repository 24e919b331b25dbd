// Package sheet prints what the control API answers for people: topics, brokers, moves and recoveries, as aligned text.
//
//  1. What the answer does not have is shown as "-", never as a zero that looks measured.
//  2. Machines read JSON (command's -o json): the text here may change.
//
// Called by command. Functions of their arguments.
package sheet
