package s3bucket

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/seedqueue/sq/libs/objstore"
)

// mapped gives one of objstore's errors around what the SDK said; nil for nil.
func mapped(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w: %w", op, key, meaning(err), err)
}

func meaning(err error) error {
	code := ""
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		code = api.ErrorCode()
	}
	switch code {
	case "NoSuchKey", "NoSuchBucket", "NotFound":
		return objstore.ErrNotFound
	case "PreconditionFailed":
		return objstore.ErrPrecondition
	case "InvalidRange":
		return objstore.ErrRange
	case "BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch", "InvalidDigest":
		return objstore.ErrChecksum
	case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "XAdminUserNotFound":
		return objstore.ErrDenied
	}
	answer, ok := errors.AsType[*awshttp.ResponseError](err)
	if !ok {
		if strings.Contains(err.Error(), "get credentials") || strings.Contains(err.Error(), "failed to refresh cached credentials") {
			return objstore.ErrDenied
		}
		return objstore.ErrUnavailable
	}
	switch answer.HTTPStatusCode() {
	case http.StatusNotFound:
		return objstore.ErrNotFound
	case http.StatusPreconditionFailed:
		return objstore.ErrPrecondition
	case http.StatusRequestedRangeNotSatisfiable:
		return objstore.ErrRange
	case http.StatusForbidden, http.StatusUnauthorized:
		return objstore.ErrDenied
	default: // 409 is a conflicting operation: the whole Put is to be tried again
		return objstore.ErrUnavailable
	}
}

// conditional turns a failed condition into the error of the one that was asked for.
func conditional(err error, opts objstore.PutOptions) error {
	if opts.IfAbsent && errors.Is(err, objstore.ErrPrecondition) {
		return fmt.Errorf("%w: %s", objstore.ErrExists, err.Error()) // and no longer ErrPrecondition
	}
	return err
}

// reader gives objstore's errors for what breaks while a body is read.
type reader struct {
	key  string
	body io.ReadCloser
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err //nolint:wrapcheck // io.Reader's contract.
	case strings.Contains(err.Error(), "checksum did not match"): // the SDK has no type for it
		return n, fmt.Errorf("read %s: %w: %w", r.key, objstore.ErrChecksum, err)
	default:
		return n, fmt.Errorf("read %s: %w: %w", r.key, objstore.ErrUnavailable, err)
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	if err := r.body.Close(); err != nil {
		return fmt.Errorf("close %s: %w", r.key, err)
	}
	return nil
}
