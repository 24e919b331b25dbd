package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/seedqueue/sq/cli/internal/embedded"
	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/objstore/membucket"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/etcdstore"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/libs/vfs/osfs"
)

// stores is what the services keep things in.
type stores struct {
	topology topology.Store
	bucket   objstore.Bucket
	disk     func(partition.NodeID) (vfs.FS, error)
	spool    vfs.FS // nil = in memory
	brokers  int    // of which there is data: the highest number
	// failed gets an error when one of them ends by itself.
	failed <-chan error
	// close closes them in the right order. The services have stopped.
	close func() error
}

// disks opens directories, each once: a broker that starts anew gets the same. It is safe for concurrent use.
type disks struct {
	open func(name string) (vfs.FS, error)

	mu struct {
		sync.Mutex

		byName map[string]vfs.FS
	}
}

func (d *disks) get(name string) (vfs.FS, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.mu.byName[name]; known != nil {
		return known, nil
	}
	fs, err := d.open(name)
	if err != nil {
		return nil, fmt.Errorf("open the directory of %s: %w", name, err)
	}
	if d.mu.byName == nil {
		d.mu.byName = map[string]vfs.FS{}
	}
	d.mu.byName[name] = fs
	return fs, nil
}

// brokerDir is before the number in the name of a broker's directory.
const brokerDir = "broker-"

func (d *disks) broker(id partition.NodeID) (vfs.FS, error) {
	return d.get(brokerDir + strconv.FormatUint(uint64(id), 10))
}

// brokersIn gives the highest number of a broker that has a directory in dir, 0 = none.
func brokersIn(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("look for brokers' data: %w", err)
	}
	highest := 0
	for _, entry := range entries {
		text, ok := strings.CutPrefix(entry.Name(), brokerDir)
		if n, err := strconv.Atoi(text); ok && err == nil && entry.IsDir() {
			highest = max(highest, n)
		}
	}
	return highest, nil
}

// close lets go of what is open. Nobody uses it any more.
func (d *disks) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, fs := range d.mu.byName {
		if closer, ok := fs.(io.Closer); ok {
			errs = append(errs, closer.Close())
		}
	}
	return errors.Join(errs...)
}

// inMemory keeps everything in memory.
func inMemory() *stores {
	store := memstore.New(clock.Real())
	d := &disks{open: func(string) (vfs.FS, error) { return memfs.New(), nil }}
	return &stores{topology: store, bucket: membucket.New(clock.Real()), disk: d.broker, close: store.Close}
}

// onDisk keeps everything under dir: lock, etcd, s3, broker-1 and so on.
func onDisk(ctx context.Context, dir string) (_ *stores, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	held, err := takeLock(dir)
	if err != nil {
		return nil, err
	}
	servers := &servers{lock: held, disks: &disks{open: func(name string) (vfs.FS, error) { return osfs.New(filepath.Join(dir, name)) }}}
	defer func() {
		if err != nil {
			err = errors.Join(err, servers.close())
		}
	}()
	there, err := brokersIn(dir)
	if err != nil {
		return nil, err
	}
	bucket, err := servers.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	spool, err := servers.disks.get("tierer")
	if err != nil {
		return nil, err
	}
	return &stores{
		topology: servers.store, bucket: bucket, disk: servers.disks.broker, spool: spool, brokers: there, failed: servers.etcd.Failed(),
		close: servers.close,
	}, nil
}

// servers are the embedded ones.
type servers struct {
	lock  *lock
	disks *disks
	etcd  *embedded.Etcd
	store *etcdstore.Store
	s3    *embedded.S3
}

// start starts both at the same time.
func (s *servers) start(ctx context.Context, dir string) (*embedded.Bucket, error) {
	var group errgroup.Group
	var bucket *embedded.Bucket
	group.Go(func() (err error) {
		if s.etcd, err = embedded.StartEtcd(ctx, filepath.Join(dir, "etcd"), os.Stderr); err == nil {
			s.store = etcdstore.Wrap(s.etcd.Client(), 0)
		}
		return err
	})
	group.Go(func() (err error) {
		if s.s3, err = embedded.StartS3(ctx, filepath.Join(dir, "s3")); err == nil {
			bucket, err = s.s3.Bucket(ctx)
		}
		return err
	})
	return bucket, group.Wait()
}

// close stops what runs: etcd after its client, or it would wait for that.
func (s *servers) close() error {
	var errs []error
	if s.s3 != nil {
		errs = append(errs, s.s3.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.etcd != nil {
		s.etcd.Close()
	}
	return errors.Join(append(errs, s.disks.close(), s.lock.release())...)
}
