// Package survey asks brokers where replicas stand: the positions of all of them in one call a broker, and the progress of learners at a leader.
//
//  1. Every answer is a hint: nothing is promised by it, and it is old when it arrives. The protocol of the log decides; a hint only chooses
//     whom to try first.
//  2. An Ask ends within its time. A broker that has not answered by then is as if it had not been asked, and does not keep the others waiting.
//  3. There is one connection a broker's process; one that fails is made anew at the next question. Nothing is asked while nothing happens.
//
// Called by reconcile and operator. Safe for concurrent use; Close joins what it has started.
package survey
