// Package outbox is the engine of a producer: it gathers records into parcels, one lane a partition, and sends each as a batch until it has
// its answer. What a session allows, package session decides; here are the goroutines, the time and the calls.
//
//  1. Every record handed over is answered exactly once, and in one partition in the order in which they came.
//  2. A record that may be stored is never told to be not stored: an Operation that is given up says "unknown" unless nothing of it is
//     being sent and every attempt was refused.
//  3. What was given up so is never sent afterwards, though other records of its parcel are.
//  4. A message's bytes change only while no connection may read them.
//  5. The bytes taken from the account are given back with the answer.
//
// Called by package sq, an Outbox a producer. Outbox and Operation are safe for concurrent use. A lane's goroutine begins with its first
// record and is joined by Stop. It does not ask for metadata by itself: Config.LookUp does.
package outbox
