package segment

import "github.com/seedqueue/sq/libs/vfs"

// Files keeps the files of many segments open, within a bound.
type Files struct{ fs vfs.FS }

// NewFiles keeps at most limit clean files of fs open; files in use come on top.
func NewFiles(fs vfs.FS, limit int) *Files { return &Files{fs: fs} }
