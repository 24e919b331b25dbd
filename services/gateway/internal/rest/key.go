package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/services/gateway/internal/records"
)

const (
	keyHeader   = "Idempotency-Key"
	keyMetadata = records.KeyMetadata
)

// checkKey: gRPC carries printable ASCII, and more than one key is a mistake.
func checkKey(r *http.Request) error {
	values := r.Header.Values(keyHeader)
	if len(values) > 1 {
		return fault.Errorf(fault.Invalid, "%s: it is given %d times", keyHeader, len(values))
	}
	for _, value := range values {
		if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
			return fault.Errorf(fault.Invalid, "%s: it must be printable ASCII", keyHeader)
		}
	}
	return nil
}

// withKey puts an Idempotency-Key into a call. "" = none.
func withKey(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, keyMetadata, key)
}

func isPublish(path string) bool { return strings.HasSuffix(path, ":publish") }

func nopCloser(data []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(data)) }
