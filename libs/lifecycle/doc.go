// Package lifecycle runs the parts of a process together.
//
//  1. Parts start in order, and stop in reverse: a part's context ends when all parts after it have returned.
//  2. The first part that fails, or the end of the context, stops all. A part that returns nil has done its work; the others go on.
//  3. Where a part has failed, Failure tells the others so: they stop at once instead of in good order.
//  4. Run returns when every part has returned: no goroutine of it is left.
//
// Called by mains and by allinone. A panic of a part is not caught: the process must not go on without it.
package lifecycle
