package tierer_test

import (
	"context"
	"io"

	"github.com/seedqueue/sq/libs/objstore"
)

var noOptions objstore.PutOptions

// careless is a store that ignores the conditions of a PUT.
type careless struct{ objstore.Bucket }

func (c careless) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opts objstore.PutOptions) (objstore.Info, error) {
	opts.IfAbsent, opts.IfMatch = false, ""
	return c.Bucket.Put(ctx, key, body, size, opts)
}
