package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/objstore/s3bucket"
)

// Bucket is a bucket of the embedded S3 server. That server does not sync what it writes, and brokers delete what the bucket has: Put syncs
// the object's file and the directories above it before it returns.
type Bucket struct {
	*s3bucket.Bucket

	dir string // of the bucket's objects
}

var _ objstore.Bucket = (*Bucket)(nil)

// Put implements objstore.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opts objstore.PutOptions) (objstore.Info, error) {
	info, err := b.Bucket.Put(ctx, key, body, size, opts)
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return info, err //nolint:wrapcheck // names the key.
	}
	// An object that exists already may be one whose writer died before it was synced.
	if syncErr := syncUp(b.dir, filepath.FromSlash(key)); syncErr != nil {
		return info, fmt.Errorf("put %s: sync: %w: %w", key, objstore.ErrUnavailable, syncErr)
	}
	return info, err //nolint:wrapcheck // names the key.
}

// syncUp syncs a file under root, and every directory from it up to and with root's parent.
func syncUp(root, name string) error {
	if !filepath.IsLocal(name) {
		return fmt.Errorf("key %q is no path", name)
	}
	for path := filepath.Join(root, name); ; path = filepath.Dir(path) {
		if err := syncOne(path); err != nil {
			return err
		}
		if path == root || !strings.HasPrefix(path, root) {
			return syncOne(filepath.Dir(root))
		}
	}
}

func syncOne(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
