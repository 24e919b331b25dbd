package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"

	"github.com/seedqueue/sq/libs/objstore/s3bucket"
)

const (
	// BucketName of the one bucket. S3 wants at least three characters.
	BucketName = "sq-dev"

	s3Region      = "us-east-1"
	s3Connections = 256
	s3Parts       = 10_000
	s3Ready       = 10 * time.Second
	s3Poll        = 2 * time.Millisecond
	// s3Tries bounds how often another port is taken after somebody else got the one that was free.
	s3Tries = 5
)

// S3 is a running S3 server on a directory.
type S3 struct {
	dir    string
	addr   string
	key    string
	secret string
	stop   context.CancelFunc
	ended  chan error
}

// StartS3 starts an S3 server that keeps its data under dir and waits until it serves.
func StartS3(ctx context.Context, dir string) (*S3, error) {
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(data, BucketName), 0o755); err != nil {
		return nil, fmt.Errorf("start S3 server: %w", err)
	}
	var err error
	for range s3Tries {
		var s *S3
		if s, err = startS3(ctx, dir, data); err == nil || ctx.Err() != nil {
			return s, err
		}
	}
	return nil, err
}

func startS3(ctx context.Context, dir, data string) (*S3, error) {
	store, opts, err := metadata(dir, data)
	if err != nil {
		return nil, err
	}
	backend, err := posix.New(data, store, opts)
	if err != nil {
		return nil, fmt.Errorf("start S3 server in %s: %w", dir, err)
	}
	addr, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &S3{dir: data, addr: addr, key: rand.Text(), secret: rand.Text(), stop: stop, ended: make(chan error, 1)}
	// Given a service of its own, versitygw does not print that it has none.
	root := auth.NewIAMServiceSingle(auth.Account{Access: s.key, Secret: s.secret, Role: auth.RoleAdmin})
	go func() {
		s.ended <- embedgw.RunVersityGW(running, backend, &embedgw.Config{
			RootUserAccess: s.key, RootUserSecret: s.secret, Region: s3Region, Ports: []string{addr}, Quiet: true, IAMService: root,
			MaxConnections: s3Connections, MaxRequests: s3Connections, MultipartMaxParts: s3Parts,
		})
	}()
	if err := s.await(ctx); err != nil {
		stop()
		return nil, fmt.Errorf("start S3 server on %s: %w", addr, err)
	}
	return s, nil
}

// metadata keeps objects' metadata in extended attributes, or beside the data where the file system has none.
func metadata(dir, data string) (meta.MetadataStorer, posix.PosixOpts, error) {
	opts := posix.PosixOpts{CopyObjectThreshold: 5 << 30}
	if (meta.XattrMeta{}).Test(data) == nil {
		return meta.XattrMeta{}, opts, nil
	}
	side := filepath.Join(dir, "metadata")
	if err := os.MkdirAll(side, 0o755); err != nil {
		return nil, opts, fmt.Errorf("start S3 server: %w", err)
	}
	store, err := meta.NewSideCar(side)
	if err != nil {
		return nil, opts, fmt.Errorf("start S3 server: keep metadata in %s: %w", side, err)
	}
	opts.SideCarDir = side
	return store, opts, nil
}

func freePort(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port for the S3 server: %w", err)
	}
	return lis.Addr().String(), lis.Close()
}

// await returns when the server accepts connections.
func (s *S3) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s3Ready)
	defer cancel()
	poll := time.NewTicker(s3Poll)
	defer poll.Stop()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", s.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return errors.Join(errors.New("it ended"), err)
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}

// Bucket opens the bucket, whose writes are synced before they are acknowledged.
func (s *S3) Bucket(ctx context.Context) (*Bucket, error) {
	bucket, err := s3bucket.New(ctx, s3bucket.Config{
		Endpoint: "http://" + s.addr, Region: s3Region, Bucket: BucketName, AccessKey: s.key, SecretKey: s.secret, PathStyle: true,
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	if err := bucket.Ensure(ctx); err != nil {
		return nil, fmt.Errorf("open bucket: %w", err)
	}
	return &Bucket{Bucket: bucket, dir: filepath.Join(s.dir, BucketName)}, nil
}

// Close stops the server.
func (s *S3) Close() error {
	s.stop()
	if err := <-s.ended; err != nil {
		return fmt.Errorf("stop S3 server: %w", err)
	}
	return nil
}
