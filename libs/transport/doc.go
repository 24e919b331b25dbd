// Package transport is how SQ's services reach each other: streams of bytes between named addresses.
//
//  1. A Network's connections behave as TCP's: ordered bytes or an error, deadlines, half-close by CloseWrite where both ends can.
//  2. A dial to an address where nobody listens fails at once.
//
// Homes: transport/tcpnet, transport/memnet (in process; cuts, delays and drips on demand). Both pass transport/transporttest. Called by
// every service through its Deps. Safe for concurrent use.
package transport
