package membucket

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc64"
	"io"
	"maps"
	"sort"
	"strings"
	"sync"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/objstore"
)

type object struct {
	info objstore.Info
	data []byte
}

// Bucket is an in-memory bucket.
type Bucket struct {
	clock clock.Clock
	table *crc64.Table
	mu    struct {
		sync.RWMutex

		objects map[string]object
	}
}

var _ objstore.Bucket = (*Bucket)(nil)

// New makes an empty bucket. The clock dates its objects.
func New(clk clock.Clock) *Bucket {
	b := &Bucket{clock: clk, table: crc64.MakeTable(crc64.ECMA)}
	b.mu.objects = map[string]object{}
	return b
}

// Put implements objstore.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opts objstore.PutOptions) (objstore.Info, error) {
	if err := ended(ctx, "put", key); err != nil {
		return objstore.Info{}, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return objstore.Info{}, fmt.Errorf("put %s: rewind body: %w", key, err)
	}
	data, err := io.ReadAll(io.LimitReader(body, size))
	if err != nil {
		return objstore.Info{}, fmt.Errorf("put %s: read body: %w", key, err)
	}
	if int64(len(data)) != size {
		return objstore.Info{}, fmt.Errorf("put %s: body of %d bytes is shorter than %d: %w", key, len(data), size, io.ErrUnexpectedEOF)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, exists := b.mu.objects[key]
	if opts.IfAbsent && exists {
		return objstore.Info{}, fmt.Errorf("put %s: %w", key, objstore.ErrExists)
	}
	if opts.IfMatch != "" && old.info.ETag != opts.IfMatch {
		if !exists {
			return objstore.Info{}, fmt.Errorf("put %s: %w", key, objstore.ErrNotFound)
		}
		return objstore.Info{}, fmt.Errorf("put %s: %w", key, objstore.ErrPrecondition)
	}
	info := objstore.Info{
		Key: key, Size: size, ETag: fmt.Sprintf("\"%016x\"", crc64.Checksum(data, b.table)),
		Modified: b.clock.Now(), Metadata: maps.Clone(opts.Metadata),
	}
	b.mu.objects[key] = object{info: info, data: data}
	return info, nil
}

// Get implements objstore.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	found, err := b.find(ctx, "get", key)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	if off < 0 || (off >= found.info.Size && (off > 0 || n > 0)) {
		return nil, objstore.Info{}, fmt.Errorf("get %s from %d of %d bytes: %w", key, off, found.info.Size, objstore.ErrRange)
	}
	data := found.data[off:]
	if n >= 0 {
		data = data[:min(n, int64(len(data)))]
	}
	return io.NopCloser(bytes.NewReader(data)), found.info, nil
}

// Head implements objstore.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	found, err := b.find(ctx, "head", key)
	return found.info, err
}

func (b *Bucket) find(ctx context.Context, op, key string) (object, error) {
	if err := ended(ctx, op, key); err != nil {
		return object{}, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	found, ok := b.mu.objects[key]
	if !ok {
		return object{}, fmt.Errorf("%s %s: %w", op, key, objstore.ErrNotFound)
	}
	found.info.Metadata = maps.Clone(found.info.Metadata)
	return found, nil
}

// Delete implements objstore.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := ended(ctx, "delete", key); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.mu.objects, key)
	return nil
}

// List implements objstore.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, error) {
	if err := ended(ctx, "list", prefix); err != nil {
		return nil, err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	var infos []objstore.Info
	for key, found := range b.mu.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			info := found.info
			info.Metadata = nil
			infos = append(infos, info)
		}
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Key < infos[j].Key })
	return infos[:min(limit, len(infos))], nil
}

func ended(ctx context.Context, op, key string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s %s: %w: %w", op, key, objstore.ErrUnavailable, err)
	}
	return nil
}
