// Package version tells which build of SQ runs. Called by every main. It is constant for the life of the process.
package version
