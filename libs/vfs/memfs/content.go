package memfs

import (
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

const (
	pageBytes   = 4096
	sectorBytes = 512
	// maxVersions bounds the unsynced versions remembered of a page beside the live one; the oldest go first.
	maxVersions = 3
)

// pageData never changes once it is somewhere: writes make a new one, which is why crash states cost no copies.
type pageData [pageBytes]byte

var zeroPage pageData //nolint:gochecknoglobals // constant: nobody writes to a pageData in place

// page is one page with its history. live and stable are nil where it is all zeros.
type page struct {
	live, stable *pageData
	// past has the versions between stable and live, oldest first.
	past []*pageData
}

func (p *page) settled() bool { return p.live == p.stable && len(p.past) == 0 }

// put makes data the live version.
func (p *page) put(data *pageData) {
	if p.live != p.stable || len(p.past) > 0 {
		p.past = append(p.past, p.live)
		if len(p.past) > maxVersions {
			p.past = slices.Delete(p.past, 0, 1)
		}
	}
	p.live = data
}

func orZero(data *pageData) *pageData {
	if data == nil {
		return &zeroPage
	}
	return data
}

// volume counts pages against a capacity.
type volume struct {
	capacity int64
	used     atomic.Int64
}

// take reserves n bytes, less where n is negative.
func (v *volume) take(n int64) error {
	if v.used.Add(n) > v.capacity && n > 0 {
		v.used.Add(-n)
		return syscall.ENOSPC
	}
	return nil
}

// content is the bytes of a file.
type content struct {
	volume *volume
	mu     struct {
		sync.RWMutex
		pages map[int64]*page
		// dirty has the pages that the next sync writes; a page that a failed sync dropped is not there though it is not settled.
		dirty map[int64]struct{}

		// reserved is how many pages from the start count against the volume, whether they are live or not.
		reserved int64

		size, stableSize int64
		pastSizes        []int64
		sizeDirty        bool
	}
}

func newContent(v *volume) *content {
	c := &content{volume: v}
	c.mu.pages = map[int64]*page{}
	c.mu.dirty = map[int64]struct{}{}
	return c
}

func (c *content) bytes() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.mu.size
}

func (c *content) readAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, syscall.EINVAL
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	n := int(max(0, min(int64(len(b)), c.mu.size-off)))
	for done := 0; done < n; {
		at := off + int64(done)
		data := &zeroPage
		if p := c.mu.pages[at/pageBytes]; p != nil {
			data = orZero(p.live)
		}
		done += copy(b[done:n], data[at%pageBytes:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// writeAt writes whole pages until the volume is full.
func (c *content) writeAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, syscall.EINVAL
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for done := 0; done < len(b); {
		at := off + int64(done)
		data, err := c.editLocked(at / pageBytes)
		if err != nil {
			return done, err
		}
		done += copy(data[at%pageBytes:], b[done:])
		c.growLocked(off + int64(done))
	}
	return len(b), nil
}

// editLocked gives a fresh live version of a page, which the caller fills before it unlocks.
func (c *content) editLocked(index int64) (*pageData, error) {
	p := c.mu.pages[index]
	if p == nil {
		p = &page{}
		c.mu.pages[index] = p
	}
	if p.live == nil && index >= c.mu.reserved {
		if err := c.volume.take(pageBytes); err != nil {
			return nil, err
		}
	}
	data := new(pageData)
	*data = *orZero(p.live)
	p.put(data)
	c.mu.dirty[index] = struct{}{}
	return data, nil
}

func (c *content) growLocked(end int64) {
	if end > c.mu.size {
		c.setSizeLocked(end)
	}
	// A write up to the end brings a size that a failed sync has dropped back with it, as it brings the pages.
	c.mu.sizeDirty = c.mu.sizeDirty || end == c.mu.size && c.mu.size != c.mu.stableSize
}

func (c *content) setSizeLocked(size int64) {
	if size == c.mu.size {
		return
	}
	if c.mu.size != c.mu.stableSize {
		c.mu.pastSizes = append(c.mu.pastSizes, c.mu.size)
		if len(c.mu.pastSizes) > maxVersions {
			c.mu.pastSizes = slices.Delete(c.mu.pastSizes, 0, 1)
		}
	}
	c.mu.size, c.mu.sizeDirty = size, true
}

func (c *content) truncate(size int64) error {
	if size < 0 {
		return syscall.EINVAL
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if tail := size % pageBytes; size < c.mu.size && tail != 0 {
		if p := c.mu.pages[size/pageBytes]; p != nil && p.live != nil {
			data, err := c.editLocked(size / pageBytes)
			if err != nil {
				return err
			}
			clear(data[tail:])
		}
	}
	for index, p := range c.mu.pages {
		if index*pageBytes >= size && p.live != nil {
			p.put(nil)
			c.mu.dirty[index] = struct{}{}
			if index >= c.mu.reserved {
				_ = c.volume.take(-pageBytes) // giving back cannot fail
			}
		}
	}
	if kept := pagesOf(size); kept < c.mu.reserved {
		_ = c.volume.take((kept - c.mu.reserved) * pageBytes)
		c.mu.reserved = kept
	}
	c.setSizeLocked(size)
	return nil
}

func pagesOf(n int64) int64 { return (n + pageBytes - 1) / pageBytes }

// allocate reserves everything up to an end; what is live in it counts already.
func (c *content) allocate(end int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := pagesOf(end)
	if to <= c.mu.reserved {
		return nil
	}
	missing := to - c.mu.reserved
	for index, p := range c.mu.pages {
		if index >= c.mu.reserved && index < to && p.live != nil {
			missing--
		}
	}
	if err := c.volume.take(missing * pageBytes); err != nil {
		return err
	}
	c.mu.reserved = to
	return nil
}

// sync makes dirty pages and the size durable.
func (c *content) sync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for index := range c.mu.dirty {
		p := c.mu.pages[index]
		p.stable, p.past = p.live, nil
		if p.live == nil {
			delete(c.mu.pages, index)
		}
	}
	clear(c.mu.dirty)
	if c.mu.sizeDirty {
		c.mu.stableSize, c.mu.pastSizes, c.mu.sizeDirty = c.mu.size, nil, false
	}
}

// failSync forgets what is dirty without making it durable.
func (c *content) failSync() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.mu.dirty)
	c.mu.sizeDirty = false
}

// release gives the pages of a file that nobody can reach any more back to the volume.
func (c *content) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.volume.take(-c.mu.reserved * pageBytes)
	for index, p := range c.mu.pages {
		if p.live != nil && index >= c.mu.reserved {
			_ = c.volume.take(-pageBytes)
		}
	}
}

// survivor copies the file as the dice let a power cut leave it.
func (c *content) survivor(v *volume, d dice) *content {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := newContent(v)
	sizes := append(append([]int64{c.mu.stableSize}, c.mu.pastSizes...), c.mu.size)
	if c.mu.stableSize == c.mu.size && len(c.mu.pastSizes) == 0 {
		sizes = sizes[:1]
	}
	out.mu.size = sizes[d.version(len(sizes))]
	out.mu.stableSize = out.mu.size
	out.mu.reserved = c.mu.reserved
	v.used.Add(out.mu.reserved * pageBytes)
	for _, index := range slices.Sorted(maps.Keys(c.mu.pages)) {
		data := c.mu.pages[index].survivor(d)
		if start := index * pageBytes; start >= out.mu.size {
			continue
		} else if end := out.mu.size - start; end < pageBytes && data != nil {
			cut := *data
			clear(cut[end:])
			data = &cut
		}
		if data != nil {
			out.mu.pages[index] = &page{live: data, stable: data}
			if index >= out.mu.reserved {
				v.used.Add(pageBytes)
			}
		}
	}
	return out
}

func (p *page) survivor(d dice) *pageData {
	if p.settled() {
		return p.live
	}
	versions := append(append([]*pageData{p.stable}, p.past...), p.live)
	newer := d.version(len(versions))
	if newer == 0 || !d.tear() {
		return versions[newer]
	}
	older := d.below(newer)
	mixed := *orZero(versions[older])
	for at := 0; at < pageBytes; at += sectorBytes {
		if d.below(2) == 1 {
			copy(mixed[at:at+sectorBytes], orZero(versions[newer])[at:])
		}
	}
	return &mixed
}
