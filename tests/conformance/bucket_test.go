package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"

	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/objstore/buckettest"
	"github.com/seedqueue/sq/libs/objstore/s3bucket"
)

// startS3 starts an S3 server in this process and gives a bucket's configuration; it ends with the test. One a process.
func startS3(t *testing.T) s3bucket.Config {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	if err := port.Close(); err != nil {
		t.Fatal(err)
	}
	side := t.TempDir()
	sidecar, err := meta.NewSideCar(side)
	if err != nil {
		t.Fatal(err)
	}
	backend, err := posix.New(t.TempDir(), sidecar, posix.PosixOpts{CopyObjectThreshold: 5 << 30, SideCarDir: side, Concurrency: 64})
	if err != nil {
		t.Fatalf("start s3 backend: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
			RootUserAccess: "access", RootUserSecret: "secret-secret", Ports: []string{address}, Quiet: true,
			MaxConnections: 1024, MaxRequests: 512, MultipartMaxParts: 10_000,
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Error("the s3 server does not end")
		}
	})
	return s3bucket.Config{
		Endpoint: "http://" + address, Bucket: "conformance", Prefix: "some/prefix", AccessKey: "access", SecretKey: "secret-secret", PathStyle: true,
	}
}

func openS3(t *testing.T, cfg s3bucket.Config) *s3bucket.Bucket {
	t.Helper()
	bucket, err := s3bucket.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return bucket
}

func TestS3Bucket(t *testing.T) {
	cfg := startS3(t)
	bucket := openS3(t, cfg)
	for {
		err := bucket.Ensure(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, objstore.ErrUnavailable) { // not listening yet
			t.Fatal(err)
		}
	}
	if err := bucket.Ensure(t.Context()); err != nil {
		t.Errorf("ensure an existing bucket: %v", err)
	}
	runs := 0
	buckettest.Run(t, func(*testing.T) (objstore.Bucket, string) {
		runs++
		return bucket, fmt.Sprintf("run%d/", runs)
	}, 2*s3bucket.PartBytes+12345)

	t.Run("Denied", func(t *testing.T) {
		for name, change := range map[string]func(*s3bucket.Config){
			"secret": func(c *s3bucket.Config) { c.SecretKey = "wrong-wrong" },
			"user":   func(c *s3bucket.Config) { c.AccessKey = "nobody" },
		} {
			other := cfg
			change(&other)
			if _, err := openS3(t, other).List(t.Context(), "", "", 1); !errors.Is(err, objstore.ErrDenied) {
				t.Errorf("wrong %s: %v", name, err)
			}
		}
	})
	t.Run("NoBucket", func(t *testing.T) {
		other := cfg
		other.Bucket = "missing"
		if _, err := openS3(t, other).List(t.Context(), "", "", 1); !errors.Is(err, objstore.ErrNotFound) {
			t.Errorf("missing bucket: %v", err)
		}
	})
}

func TestS3Unreachable(t *testing.T) {
	bucket := openS3(t, s3bucket.Config{Endpoint: "http://127.0.0.1:1", Bucket: "seedqueue", AccessKey: "a", SecretKey: "s", PathStyle: true})
	if _, err := bucket.Head(t.Context(), "key"); !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("head: %v", err)
	}
}
