package s3bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/logging"

	"github.com/seedqueue/sq/libs/objstore"
)

const (
	dialTimeout   = 5 * time.Second
	headerTimeout = 30 * time.Second
	connections   = 64
)

// Bucket is a bucket, or a prefix in one.
type Bucket struct {
	client *s3.Client
	name   string
	prefix string
}

var _ objstore.Bucket = (*Bucket)(nil)

// New makes a bucket. It makes no call: a store that cannot be reached shows in the first.
func New(ctx context.Context, cfg Config) (*Bucket, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Region == "" {
		cfg.Region = "us-east-1"
	}
	client := awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) {
			t.ResponseHeaderTimeout = headerTimeout
			t.MaxIdleConnsPerHost = connections
			t.MaxConnsPerHost = connections
		})
	options := []func(*config.LoadOptions) error{
		config.WithRegion(cfg.Region), config.WithHTTPClient(client), config.WithLogger(logging.Nop{}),
	}
	if cfg.AccessKey != "" {
		options = append(options, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(cfg.AccessKey, cfg.SecretKey, "")))
	}
	loaded, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("configure s3 client: %w", err)
	}
	b := &Bucket{name: cfg.Bucket, prefix: strings.Trim(cfg.Prefix, "/")}
	if b.prefix != "" {
		b.prefix += "/"
	}
	b.client = s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.UsePathStyle = cfg.PathStyle
		o.DisableLogOutputChecksumValidationSkipped = true
		if cfg.Endpoint != "" {
			o.BaseEndpoint = aws.String(strings.TrimRight(cfg.Endpoint, "/"))
		}
	})
	return b, nil
}

// Ensure makes the bucket where it is missing: for stores that are started with SQ.
func (b *Bucket) Ensure(ctx context.Context) error {
	_, err := b.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &b.name})
	if err = mapped("head bucket", b.name, err); !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	_, err = b.client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &b.name})
	var exists *types.BucketAlreadyOwnedByYou
	if errors.As(err, &exists) {
		return nil
	}
	return mapped("create bucket", b.name, err)
}

// Put implements objstore.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opts objstore.PutOptions) (objstore.Info, error) {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return objstore.Info{}, fmt.Errorf("put %s: rewind body: %w", key, err)
	}
	if size > PartBytes {
		return b.putParts(ctx, key, body, size, opts)
	}
	input := &s3.PutObjectInput{
		Bucket: &b.name, Key: aws.String(b.prefix + key), Body: body, ContentLength: &size, Metadata: opts.Metadata,
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
	}
	input.IfNoneMatch, input.IfMatch = conditions(opts)
	output, err := b.client.PutObject(ctx, input)
	if err != nil {
		return objstore.Info{}, conditional(mapped("put", key, err), opts)
	}
	return objstore.Info{Key: key, Size: size, ETag: aws.ToString(output.ETag), Metadata: opts.Metadata}, nil
}

func conditions(opts objstore.PutOptions) (ifNoneMatch, ifMatch *string) {
	if opts.IfAbsent {
		ifNoneMatch = aws.String("*")
	}
	if opts.IfMatch != "" {
		ifMatch = &opts.IfMatch
	}
	return ifNoneMatch, ifMatch
}

// Get implements objstore.Bucket.
func (b *Bucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	if n == 0 || off < 0 {
		return b.getNothing(ctx, key, off)
	}
	input := &s3.GetObjectInput{Bucket: &b.name, Key: aws.String(b.prefix + key)}
	switch {
	case n > 0:
		input.Range = aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	case off > 0:
		input.Range = aws.String(fmt.Sprintf("bytes=%d-", off))
	default:
		input.ChecksumMode = types.ChecksumModeEnabled // a range has no checksum of its own
	}
	output, err := b.client.GetObject(ctx, input)
	if err != nil {
		return nil, objstore.Info{}, mapped("get", key, err)
	}
	info := objstore.Info{
		Key: key, Size: aws.ToInt64(output.ContentLength), ETag: aws.ToString(output.ETag),
		Modified: aws.ToTime(output.LastModified), Metadata: output.Metadata,
	}
	if input.Range != nil {
		if info.Size, err = totalSize(aws.ToString(output.ContentRange)); err != nil {
			return nil, objstore.Info{}, errors.Join(fmt.Errorf("get %s: %w", key, err), output.Body.Close())
		}
	}
	return &reader{key: key, body: output.Body}, info, nil
}

// getNothing answers a Get of no bytes, which HTTP cannot ask for.
func (b *Bucket) getNothing(ctx context.Context, key string, off int64) (io.ReadCloser, objstore.Info, error) {
	info, err := b.Head(ctx, key)
	if err != nil {
		return nil, objstore.Info{}, err
	}
	if off < 0 || (off > 0 && off >= info.Size) {
		return nil, objstore.Info{}, fmt.Errorf("get %s from %d of %d bytes: %w", key, off, info.Size, objstore.ErrRange)
	}
	return http.NoBody, info, nil
}

// totalSize reads the object's size out of "bytes 0-9/100".
func totalSize(contentRange string) (int64, error) {
	_, total, _ := strings.Cut(contentRange, "/")
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil || size < 0 {
		return 0, fmt.Errorf("the store ignored the range: content range %q: %w", contentRange, objstore.ErrUnavailable)
	}
	return size, nil
}

// Head implements objstore.Bucket.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	output, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.name, Key: aws.String(b.prefix + key)})
	if err != nil {
		return objstore.Info{}, mapped("head", key, err)
	}
	return objstore.Info{
		Key: key, Size: aws.ToInt64(output.ContentLength), ETag: aws.ToString(output.ETag),
		Modified: aws.ToTime(output.LastModified), Metadata: output.Metadata,
	}, nil
}

// Delete implements objstore.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: aws.String(b.prefix + key)})
	if err = mapped("delete", key, err); err != nil && !errors.Is(err, objstore.ErrNotFound) {
		return err
	}
	return nil
}

// List implements objstore.Bucket.
func (b *Bucket) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, error) {
	input := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(b.prefix + prefix)}
	if after != "" {
		input.StartAfter = aws.String(b.prefix + after)
	}
	var infos []objstore.Info
	for len(infos) < limit {
		input.MaxKeys = aws.Int32(int32(min(limit-len(infos), listMax))) //nolint:gosec // at most listMax.
		output, err := b.client.ListObjectsV2(ctx, input)
		if err != nil {
			return nil, mapped("list", prefix, err)
		}
		for _, found := range output.Contents {
			infos = append(infos, objstore.Info{
				Key: strings.TrimPrefix(aws.ToString(found.Key), b.prefix), Size: aws.ToInt64(found.Size),
				ETag: aws.ToString(found.ETag), Modified: aws.ToTime(found.LastModified),
			})
		}
		if !aws.ToBool(output.IsTruncated) || output.NextContinuationToken == nil {
			break
		}
		input.ContinuationToken = output.NextContinuationToken
	}
	return infos, nil
}
