package s3bucket

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/seedqueue/sq/libs/objstore"
)

// abortTimeout bounds the removal of the parts of an upload that failed. What stays is for the bucket's lifecycle rule on incomplete uploads.
const abortTimeout = 10 * time.Second

func (b *Bucket) putParts(ctx context.Context, key string, body io.Reader, size int64, opts objstore.PutOptions) (objstore.Info, error) {
	if size > PartBytes*partsMax {
		return objstore.Info{}, fmt.Errorf("put %s: %d bytes are more than %d parts of %d", key, size, partsMax, PartBytes)
	}
	created, err := b.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &b.name, Key: aws.String(b.prefix + key), Metadata: opts.Metadata, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
	})
	if err != nil {
		return objstore.Info{}, mapped("start upload of", key, err)
	}
	info, err := b.uploadParts(ctx, key, aws.ToString(created.UploadId), body, size, opts)
	if err != nil {
		b.abort(ctx, key, created.UploadId)
	}
	return info, err
}

func (b *Bucket) abort(ctx context.Context, key string, upload *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_, _ = b.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &b.name, Key: aws.String(b.prefix + key), UploadId: upload})
}

func (b *Bucket) uploadParts(
	ctx context.Context, key, upload string, body io.Reader, size int64, opts objstore.PutOptions,
) (objstore.Info, error) {
	parts := make([]types.CompletedPart, (size+PartBytes-1)/PartBytes)
	buffers := make(chan []byte, Concurrency)
	for range Concurrency {
		buffers <- nil
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for i := range parts {
		buffer := <-buffers
		if groupCtx.Err() != nil {
			break
		}
		part := min(PartBytes, size-int64(i)*PartBytes)
		if int64(cap(buffer)) < part {
			buffer = make([]byte, part)
		}
		buffer = buffer[:part]
		if _, err := io.ReadFull(body, buffer); err != nil {
			group.Go(func() error { return fmt.Errorf("put %s: read body: %w", key, err) })
			break
		}
		group.Go(func() error {
			defer func() { buffers <- buffer }()
			done, err := b.uploadPart(groupCtx, key, upload, int32(i+1), buffer) //nolint:gosec // at most partsMax.
			parts[i] = done
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return objstore.Info{}, err //nolint:wrapcheck // the parts wrap theirs.
	}
	if err := ctx.Err(); err != nil {
		return objstore.Info{}, mapped("put", key, err)
	}
	input := &s3.CompleteMultipartUploadInput{
		Bucket: &b.name, Key: aws.String(b.prefix + key), UploadId: &upload, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	}
	input.IfNoneMatch, input.IfMatch = conditions(opts)
	output, err := b.client.CompleteMultipartUpload(ctx, input)
	if err != nil {
		return objstore.Info{}, conditional(mapped("complete upload of", key, err), opts)
	}
	return objstore.Info{Key: key, Size: size, ETag: aws.ToString(output.ETag), Metadata: opts.Metadata}, nil
}

func (b *Bucket) uploadPart(ctx context.Context, key, upload string, number int32, data []byte) (types.CompletedPart, error) {
	output, err := b.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &b.name, Key: aws.String(b.prefix + key), UploadId: &upload, PartNumber: &number, Body: bytes.NewReader(data),
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc32c,
	})
	if err != nil {
		return types.CompletedPart{}, mapped(fmt.Sprintf("upload part %d of", number), key, err)
	}
	return types.CompletedPart{PartNumber: &number, ETag: output.ETag, ChecksumCRC32C: output.ChecksumCRC32C}, nil
}
