// Package vfstest is what every vfs.FS must pass. Called by the tests of the homes. It tests what a running process sees; what a power cut
// leaves is memfs's to test.
package vfstest
