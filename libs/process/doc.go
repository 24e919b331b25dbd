// Package process is the outermost layer of a service's program: it meets the machine and hands it on as node.Deps.
//
//  1. SIGINT and SIGTERM end the context of the service, which then stops in order; a second one ends the process at once.
//  2. Exit codes: 0 stopped in order, or printed what was asked for; 1 failed; 2 settings not understood. What went wrong is the last line on
//     standard error.
//  3. What was opened for the service is closed after it has returned; the spans that wait leave last.
//
// Called by the mains of the services, and by nothing else: here are the real clock, network, randomness and store.
package process
