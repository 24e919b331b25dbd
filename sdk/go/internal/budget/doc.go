// Package budget bounds the bytes that a client buffers.
//
//  1. What all accounts have taken is at most the total, but for what was there before it could be asked for (Adjust) and rule 3.
//  2. Accounts that read have at most half of it together, so that a loop which sends what it reads never waits for itself.
//  3. An account that reads and has nothing may always take: loops within loops do not wait for each other.
//
// Called by the SDK: an account a producer, one a reading loop. Safe for concurrent use. Who waits is not served in order.
package budget
