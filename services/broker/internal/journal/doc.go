// Package journal is a disk's replica-state stream.
package journal
