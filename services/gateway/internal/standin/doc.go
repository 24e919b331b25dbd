// Package standin has small brokers, tierers and a View for the gateway's tests: they speak the real protocol over a real connection and
// keep their logs in memory.
//
//  1. A Log is shared by the brokers and tierers of a partition: it says where its local part and its tier begin and end.
//  2. A Hook sees every request before the stand-in serves it and may answer, refuse, keep or break it.
//  3. A Broker that was killed closes its connections without an answer.
//
// Called by tests only. Everything is safe for concurrent use. It checks headers as a broker does, but replicates and persists nothing.
package standin
