package segment

import (
	"container/list"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/vfs"
)

// Files keeps the files of many segments open, and their indexes in memory, both within a bound. Only a file that nobody has pinned is closed
// to make room; a writer keeps its file pinned while it is not synced, so that no error of a sync is lost with a closed file. Safe for
// concurrent use.
type Files struct {
	fs       vfs.FS
	limit    int
	pool     *pool.Pool // nil = none
	scanners sync.Pool  // *Scanner

	mu struct {
		sync.Mutex
		open    int        // handles, in use or idle
		idle    *list.List // *File, most recently used in front
		indexes []cached   // oldest first
		entries int        // of these
	}
}

// cached is an index that is kept in memory until its turn comes.
type cached struct {
	slot    *atomic.Pointer[Index]
	entries int
}

// maxCachedEntries bounds the entries of indexes kept in memory: 24 bytes each.
const maxCachedEntries = 512 << 10

// NewFiles keeps at most limit files of fs open that nobody uses; files in use come on top.
func NewFiles(fsys vfs.FS, limit int) *Files {
	f := &Files{fs: fsys, limit: limit}
	f.mu.idle = list.New()
	f.scanners.New = func() any { return new(Scanner) }
	return f
}

// Recycle has dropped segments go into a pool and new ones come from it. Before any segment is opened.
func (f *Files) Recycle(p *pool.Pool) { f.pool = p }

// Open tells how many files are open.
func (f *Files) Open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.open
}

// File is a file that may be open. Safe for concurrent use.
type File struct {
	files *Files
	name  string

	// Guarded by files.mu.
	handle vfs.File
	pins   int
	idle   *list.Element // where it is in the list; nil while pinned or closed
	gone   bool
}

// File gives a file by name; nothing is opened.
func (f *Files) File(name string) *File { return &File{files: f, name: name} }

// Create makes a file and gives it pinned. It fails with fs.ErrExist if the name is taken.
func (f *Files) Create(name string) (*File, vfs.File, error) {
	handle, err := f.fs.Open(name, vfs.Write|vfs.Create|vfs.Exclusive)
	if err != nil {
		return nil, nil, err
	}
	file := &File{files: f, name: name, handle: handle, pins: 1}
	f.mu.Lock()
	f.mu.open++
	victims := f.evictLocked()
	f.mu.Unlock()
	closeAll(victims)
	return file, handle, nil
}

// Name gives the file's path in its file system.
func (f *File) Name() string { return f.name }

// Pin gives the open file and keeps it open until Unpin.
func (f *File) Pin() (vfs.File, error) {
	c := f.files
	c.mu.Lock()
	if f.gone {
		c.mu.Unlock()
		return nil, f.removed()
	}
	if f.handle != nil {
		f.pinLocked()
		handle := f.handle
		c.mu.Unlock()
		return handle, nil
	}
	c.mu.Unlock()
	opened, err := c.fs.Open(f.name, vfs.Write)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	var victims []vfs.File
	switch {
	case f.handle == nil && f.gone: // meanwhile: what was opened may be what took its name
		c.mu.Unlock()
		closeAll([]vfs.File{opened})
		return nil, f.removed()
	case f.handle == nil:
		f.handle = opened
		c.mu.open++
		victims = c.evictLocked()
	default:
		victims = append(victims, opened) // another was faster
	}
	f.pinLocked()
	handle := f.handle
	c.mu.Unlock()
	closeAll(victims)
	return handle, nil
}

func (f *File) removed() error {
	return fmt.Errorf("open %s: removed: %w", f.files.fs.Name(f.name), fs.ErrNotExist)
}

func (f *File) pinLocked() {
	f.pins++
	if f.idle != nil {
		f.files.mu.idle.Remove(f.idle)
		f.idle = nil
	}
}

// Unpin undoes one Pin.
func (f *File) Unpin() {
	c := f.files
	c.mu.Lock()
	f.pins--
	var victims []vfs.File
	if f.pins == 0 {
		f.idle = c.mu.idle.PushFront(f)
		if f.gone {
			victims = append(victims, c.closeLocked(f))
		}
		victims = append(victims, c.evictLocked()...)
	}
	c.mu.Unlock()
	closeAll(victims)
}

// Forget closes the file when its last pin is gone, and lets nobody pin it any more: its name is removed or means another file now.
func (f *File) Forget() { f.retire() }

// retire is Forget; it tells whether nobody has the file any more.
func (f *File) retire() bool {
	c := f.files
	c.mu.Lock()
	f.gone = true
	unused := f.pins == 0
	var victims []vfs.File
	if f.idle != nil {
		victims = append(victims, c.closeLocked(f))
	}
	c.mu.Unlock()
	closeAll(victims)
	return unused
}

// evictLocked takes the handles out that are over the limit.
func (f *Files) evictLocked() (victims []vfs.File) {
	for f.mu.idle.Len() > f.limit {
		if last, ok := f.mu.idle.Back().Value.(*File); ok {
			victims = append(victims, f.closeLocked(last))
		}
	}
	return victims
}

func (f *Files) closeLocked(file *File) vfs.File {
	f.mu.idle.Remove(file.idle)
	handle := file.handle
	file.idle, file.handle = nil, nil
	f.mu.open--
	return handle
}

// closeAll closes files that nobody has pinned: they are clean, and a failure says nothing about their bytes.
func closeAll(files []vfs.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

// Close closes every file that nobody has pinned.
func (f *Files) Close() {
	f.mu.Lock()
	var victims []vfs.File
	for f.mu.idle.Len() > 0 {
		if last, ok := f.mu.idle.Back().Value.(*File); ok {
			victims = append(victims, f.closeLocked(last))
		}
	}
	f.mu.Unlock()
	closeAll(victims)
}

// keep has an index stay in its slot until others need the room.
func (f *Files) keep(slot *atomic.Pointer[Index], x *Index) {
	f.mu.Lock()
	defer f.mu.Unlock()
	slot.Store(x)
	f.mu.indexes = append(f.mu.indexes, cached{slot, len(x.Entries)})
	f.mu.entries += len(x.Entries)
	for f.mu.entries > maxCachedEntries && len(f.mu.indexes) > 1 {
		f.mu.indexes[0].slot.Store(nil)
		f.mu.entries -= f.mu.indexes[0].entries
		f.mu.indexes = f.mu.indexes[1:]
	}
}

func (f *Files) scanner() *Scanner {
	s, _ := f.scanners.Get().(*Scanner)
	return s
}

// put takes a scanner back; it must not be used afterwards.
func (f *Files) put(s *Scanner) {
	s.r, s.msg = nil, nil
	if cap(s.buffer) <= scanBytes {
		f.scanners.Put(s)
	}
}
