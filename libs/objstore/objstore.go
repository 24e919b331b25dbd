package objstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// The errors a Bucket returns, wrapped with key and cause.
var (
	// ErrNotFound: no object has the key, or there is no such bucket.
	ErrNotFound = errors.New("object not found")
	// ErrExists: IfAbsent was set and the key is taken.
	ErrExists = errors.New("object exists")
	// ErrPrecondition: IfMatch was set and the object is another.
	ErrPrecondition = errors.New("object changed")
	// ErrRange: the range lies behind the object's end.
	ErrRange = errors.New("range not satisfiable")
	// ErrChecksum: bytes do not match their checksum.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrUnavailable: the store cannot be reached or asks to slow down; try later.
	ErrUnavailable = errors.New("object store unavailable")
	// ErrDenied: credentials are missing, wrong or too weak.
	ErrDenied = errors.New("object store denied access")
)

// Bucket is a flat map from key to bytes.
type Bucket interface {
	// Put stores size bytes of body under key. body is read from its start, perhaps several times.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opts PutOptions) (Info, error)
	// Get reads [off, off+n) of an object; n < 0 = to its end. The caller closes the reader.
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, Info, error)
	// Head describes an object.
	Head(ctx context.Context, key string) (Info, error)
	// Delete removes an object; no error if it is not there.
	Delete(ctx context.Context, key string) error
	// List gives up to limit objects with the prefix, in key order, after the key `after` ("" = from the first).
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
}

// PutOptions of a Put.
type PutOptions struct {
	// IfAbsent refuses to replace an object.
	IfAbsent bool
	// IfMatch refuses unless the object's ETag is this; "" = no condition.
	IfMatch string
	// Metadata is kept with the object: keys in lower case, values in ASCII.
	Metadata map[string]string
}

// Info describes an object.
type Info struct {
	Key      string
	Size     int64 // bytes
	ETag     string
	Modified time.Time         // by the store's clock
	Metadata map[string]string // not in lists
}
