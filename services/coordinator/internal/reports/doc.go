// Package reports keeps what brokers say of each other and of themselves: whom they do not reach, which of their replicas are lost, that they
// drain, how their disks are.
//
//  1. A report replaces all that its broker said before. What is not repeated within freshFor is forgotten: it is a hint for as long as somebody
//     stands by it.
//  2. A report counts only while its broker lives in the incarnation that sent it (members decides that, by the View).
//  3. Nothing here is written down. A new coordinator starts without reports, and has them within two seconds.
//  4. Forget is for a process that stood still: what it heard before is of another time (R21).
//
// Called by api (Take), reconcile and operator (Now). Safe for concurrent use; a Reports is immutable.
package reports
