// Package vfstest is what every vfs.FS must pass.
//
//  1. It tests what a running process sees; what a power cut leaves is memfs's to test.
//  2. It asks for errors by their meaning (fs.ErrNotExist and so on), never by their text.
//
// Called by the tests of the homes.
package vfstest
