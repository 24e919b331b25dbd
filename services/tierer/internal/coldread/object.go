package coldread

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
)

// blockBytes is what one GET reads: a whole number of the footer's blocks.
const blockBytes = 16 * segment.BlockBytes

// object is a segment's object in the bucket.
type object struct {
	key              string
	size, objectSize int64 // bytes of the log part, and with the footer
}

// block is blockBytes of an object's log part; the last one may be shorter.
type block struct {
	object object
	index  int64
}

// weighFooter estimates what a footer takes in memory.
func weighFooter(f *segment.Footer) int64 {
	return 512 + int64(len(f.Index.Entries))*24 + int64(len(f.BlockCRCs))*4
}

// loadFooter reads and checks a footer; once more where it is damaged.
func (r *Reader) loadFooter(ctx context.Context, o object) (*segment.Footer, error) {
	size := o.objectSize - o.size
	if size <= 0 || size > batch.MaxBytes {
		return nil, fault.Errorf(fault.Corrupt, "read footer of %s: it has %d bytes", o.key, size)
	}
	var footer *segment.Footer
	err := r.twice(func() error {
		data, err := r.get(ctx, o, o.size, size)
		if err != nil {
			return err
		}
		footer, err = segment.ParseFooter(data)
		if err == nil && footer.Index.Size != o.size {
			err = fmt.Errorf("%w: of a log part of %d bytes", segment.ErrFooter, footer.Index.Size)
		}
		if err != nil {
			return damage(fmt.Errorf("read footer of %s: %w", o.key, err))
		}
		footer.Snapshot = nil // it aliases data, and nobody here reads it
		return nil
	})
	return footer, err
}

// loadBlock reads a block and checks it by the footer; once more where it is damaged.
func (r *Reader) loadBlock(ctx context.Context, b block) ([]byte, error) {
	footer, err := r.footers.Get(ctx, b.object)
	if err != nil {
		return nil, err //nolint:wrapcheck // loadFooter has.
	}
	from := b.index * blockBytes
	size := min(blockBytes, b.object.size-from)
	var data []byte
	err = r.twice(func() error {
		if data, err = r.get(ctx, b.object, from, size); err != nil {
			return err
		}
		first := from / segment.BlockBytes
		for at := int64(0); at < size; at += segment.BlockBytes {
			part := data[at:min(at+segment.BlockBytes, size)]
			if err := footer.CheckBlock(int(first+at/segment.BlockBytes), part); err != nil {
				return damage(fmt.Errorf("read %s: %w", b.object.key, err))
			}
		}
		return nil
	})
	return data, err
}

// damage is an error about the bytes of an object.
func damage(err error) error { return &fault.Error{Kind: fault.Corrupt, Err: err} }

// twice repeats a step once where it found damage: the store, or the way from it, may have been at fault.
func (r *Reader) twice(step func() error) error {
	err := step()
	if !fault.Is(err, fault.Corrupt) {
		return err
	}
	r.cfg.Metrics.rereads.Inc()
	if err = step(); fault.Is(err, fault.Corrupt) {
		r.cfg.Metrics.corrupt.Inc()
	}
	return err
}

// get reads n bytes of an object.
func (r *Reader) get(ctx context.Context, o object, from, n int64) ([]byte, error) {
	r.cfg.Metrics.gets.Inc()
	body, info, err := r.cfg.Bucket.Get(ctx, o.key, from, n)
	if err != nil {
		return nil, getError(err)
	}
	data := make([]byte, n)
	_, err = io.ReadFull(body, data)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, getError(err)
	}
	if info.Size != o.objectSize {
		return nil, damage(fmt.Errorf("read %s: the object has %d bytes, the tier table says %d", o.key, info.Size, o.objectSize))
	}
	r.cfg.Metrics.getBytes.Add(float64(n))
	return data, nil
}

// getError gives the kind of a bucket's error. NotFound and what may be damage is decided on by the callers.
func getError(err error) error {
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return &fault.Error{Kind: fault.NotFound, Err: err}
	case errors.Is(err, objstore.ErrRange), errors.Is(err, objstore.ErrChecksum), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return damage(err)
	default:
		return &fault.Error{Kind: fault.Unavailable, Err: err}
	}
}

// logPart reads an object's log part through the cache. It belongs to one read.
type logPart struct {
	ctx    context.Context //nolint:containedctx // of the one read: io.ReaderAt has none.
	reader *Reader
	object object
	ahead  bool  // read ahead
	err    error // why a block could not be had
}

// ReadAt implements io.ReaderAt.
func (l *logPart) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		if off+int64(n) >= l.object.size {
			return n, io.EOF
		}
		data, err := l.block((off + int64(n)) / blockBytes)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], data[(off+int64(n))%blockBytes:])
	}
	return n, nil
}

// slices gives the bytes [from, to) as parts of the blocks.
func (l *logPart) slices(from, to int64) ([][]byte, error) {
	var all [][]byte
	for from < to {
		data, err := l.block(from / blockBytes)
		if err != nil {
			return nil, fault.Wrap("read "+l.object.key, err)
		}
		data = data[from%blockBytes:]
		data = data[:min(int64(len(data)), to-from)]
		all = append(all, data)
		from += int64(len(data))
	}
	return all, nil
}

func (l *logPart) block(index int64) ([]byte, error) {
	if l.ahead {
		last := (l.object.size - 1) / blockBytes
		for next := index + 1; next <= min(index+int64(l.reader.cfg.Limits.ReadAhead), last); next++ {
			l.reader.blocks.Prefetch(block{l.object, next})
		}
	}
	data, err := l.reader.blocks.Get(l.ctx, block{l.object, index})
	if err != nil {
		l.err = err
	}
	return data, err //nolint:wrapcheck // the callers do.
}
