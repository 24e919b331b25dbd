// Package wal is one replica's log in one directory.
package wal
