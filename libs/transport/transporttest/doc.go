// Package transporttest is what every transport.Network must pass.
//
//  1. It asks for no more than TCP on one machine gives, and for what SQ relies on: order, deadlines, half-close, refusal at once.
//  2. It waits for what happens, not for time to pass; the few deadlines it sets are real ones.
//
// Called by the tests of the homes.
package transporttest
