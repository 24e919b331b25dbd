// Package line cuts a stream into records, one a line, without an allocation for each.
//
//  1. Raw: a record is a line with its end; the last may lack one. The records joined are the stream, whatever it holds.
//  2. Otherwise a record is a line without its end, which is a line feed or a carriage return and a line feed. A last line may lack it.
//  3. A record above the limit is an error that names the line and the limit, and nothing of it is given.
//
// Called by cli/internal/command. A Scanner belongs to one goroutine.
package line
