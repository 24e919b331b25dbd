package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/seedqueue/sq/libs/objstore"
)

// racers is how many conditional writes are raced.
const racers = 16

// ErrUnfit is wrapped by what a store cannot do.
var ErrUnfit = errors.New("the object store does not do what SQ needs")

// Probe tries a store under a prefix that nobody else uses. The error wraps ErrUnfit, or is the bucket's own.
func Probe(ctx context.Context, bucket objstore.Bucket, prefix string) (err error) {
	var keys []string
	defer func() {
		for _, key := range keys {
			err = errors.Join(err, bucket.Delete(ctx, key))
		}
	}()
	key := prefix + "once"
	keys = append(keys, key)
	content := []byte("0123456789")
	if err := put(ctx, bucket, key, content); err != nil {
		return err //nolint:wrapcheck // the bucket says what it does.
	}
	if err := put(ctx, bucket, key, []byte("another")); !errors.Is(err, objstore.ErrExists) {
		return unfit("a second conditional PUT of a key gives %v", err)
	}
	for _, want := range []struct {
		off, n int64
		data   []byte
	}{{0, -1, content}, {3, 4, content[3:7]}} {
		got, err := get(ctx, bucket, key, want.off, want.n)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want.data) {
			return unfit("reading [%d, +%d) of what was just written gives %q", want.off, want.n, got)
		}
	}
	found, err := bucket.List(ctx, prefix, "", 2)
	if err != nil {
		return err //nolint:wrapcheck // the bucket says what it does.
	}
	if len(found) != 1 || found[0].Key != key {
		return unfit("listing what was just written gives %d keys", len(found))
	}
	raced := prefix + "raced"
	keys = append(keys, raced)
	return race(ctx, bucket, raced)
}

// race has many writers create one key: exactly one may.
func race(ctx context.Context, bucket objstore.Bucket, key string) error {
	errs := make([]error, racers)
	var tasks sync.WaitGroup
	for i := range errs {
		tasks.Go(func() { errs[i] = put(ctx, bucket, key, []byte{byte(i)}) })
	}
	tasks.Wait()
	winners := 0
	for _, err := range errs {
		switch {
		case err == nil:
			winners++
		case !errors.Is(err, objstore.ErrExists) && !errors.Is(err, objstore.ErrUnavailable):
			return err
		}
	}
	if winners > 1 {
		return unfit("%d of %d racing conditional PUTs succeeded", winners, racers)
	}
	if winners == 0 {
		return errors.Join(errs...)
	}
	return nil
}

func put(ctx context.Context, bucket objstore.Bucket, key string, data []byte) error {
	_, err := bucket.Put(ctx, key, bytes.NewReader(data), int64(len(data)), objstore.PutOptions{IfAbsent: true})
	return err //nolint:wrapcheck // the bucket says what it does.
}

func get(ctx context.Context, bucket objstore.Bucket, key string, off, n int64) ([]byte, error) {
	body, _, err := bucket.Get(ctx, key, off, n)
	if err != nil {
		return nil, err //nolint:wrapcheck // the bucket says what it does.
	}
	data, err := io.ReadAll(io.LimitReader(body, 1<<10))
	return data, errors.Join(err, body.Close())
}

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnfit, fmt.Errorf(format, args...))
}
