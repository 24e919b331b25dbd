package upload

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
)

// digestKey is the name of the log part's SHA-256 in an object's metadata.
const digestKey = "sha256"

// Leader is whose segments they are: leader.Pool.
type Leader interface {
	ReadSealed(ctx context.Context, id partition.ID, base partition.Offset, position int64, maxBytes int) (leader.Part, func(), error)
	Commit(ctx context.Context, cluster partition.UUID, id partition.ID, segments []manifest.Segment) (leader.Committed, error)
}

// Limits of an Uploader.
type Limits struct {
	Uploads   int           // at a time
	ReadBytes int           // of one answer of a leader
	Timeout   time.Duration // of one segment
}

// Config of an Uploader.
type Config struct {
	Leader  Leader
	Bucket  objstore.Bucket
	Spool   *Spool
	Cluster func() partition.UUID
	Clock   clock.Clock
	Limits  Limits
	Metrics *Metrics
	Log     *slog.Logger
}

// Uploader brings segments into the bucket.
type Uploader struct {
	cfg    Config
	tokens chan struct{}
}

// New makes an uploader.
func New(cfg Config) *Uploader {
	return &Uploader{cfg: cfg, tokens: make(chan struct{}, cfg.Limits.Uploads)}
}

// Tier uploads a partition's waiting segments and has them committed: those before the first that failed. committed tells whether any were.
func (u *Uploader) Tier(ctx context.Context, work leader.Work) (committed bool, err error) {
	segments := make([]manifest.Segment, len(work.Sealed))
	errs := make([]error, len(work.Sealed))
	var group errgroup.Group
	for i, sealed := range work.Sealed {
		select {
		case u.tokens <- struct{}{}:
		case <-ctx.Done():
			errs[i] = fault.Wrap("wait to upload", context.Cause(ctx))
			continue
		}
		group.Go(func() error {
			defer func() { <-u.tokens }()
			segments[i], errs[i] = u.upload(ctx, work.Partition, sealed)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	whole := 0
	for whole < len(errs) && errs[whole] == nil {
		whole++
	}
	if whole == 0 {
		return false, errors.Join(errs...)
	}
	_, err = u.cfg.Leader.Commit(ctx, u.cfg.Cluster(), work.Partition, segments[:whole])
	if err != nil {
		return false, fault.Wrap("commit to the tier", err)
	}
	u.cfg.Metrics.committed.Add(float64(whole))
	u.cfg.Log.DebugContext(ctx, "segments tiered", "partition", work.Partition.String(), "segments", whole, "end", segments[whole-1].End)
	return true, errors.Join(errs...)
}

// upload brings one segment into the bucket and describes it.
func (u *Uploader) upload(ctx context.Context, id partition.ID, sealed leader.Sealed) (s manifest.Segment, err error) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.Limits.Timeout)
	defer cancel()
	started := u.cfg.Clock.Now()
	f, err := u.cfg.Spool.create()
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, f.drop()) }()
	if err := u.pull(ctx, id, sealed, f); err != nil {
		u.cfg.Metrics.failures.WithLabelValues("pull").Inc()
		return s, err
	}
	s = manifest.Segment{
		Base: sealed.Base, End: sealed.End, Epoch: sealed.Epoch, Size: sealed.Size, ObjectSize: f.size,
		FirstAppendTime: sealed.FirstAppendTime, LastAppendTime: sealed.LastAppendTime, SHA256: sealed.SHA256,
	}
	if err := u.put(ctx, s.KeyIn(u.cfg.Cluster(), id), s, f); err != nil {
		u.cfg.Metrics.failures.WithLabelValues("put").Inc()
		return s, err
	}
	u.cfg.Metrics.uploads.Inc()
	u.cfg.Metrics.bytes.Add(float64(f.size))
	u.cfg.Metrics.seconds.Observe(u.cfg.Clock.Now().Sub(started).Seconds())
	return s, nil
}

// pull reads a segment from its leader into a file, proves it and puts the footer behind it.
func (u *Uploader) pull(ctx context.Context, id partition.ID, sealed leader.Sealed, f *file) error {
	p := newProof(id, sealed)
	to := io.MultiWriter(p, f)
	var index, snapshot []byte
	for p.seen < sealed.Size {
		part, release, err := u.cfg.Leader.ReadSealed(ctx, id, sealed.Base, p.seen, u.cfg.Limits.ReadBytes)
		if err != nil {
			return fault.Wrap(fmt.Sprintf("pull segment %d of %s", sealed.Base, id), err)
		}
		if p.seen == 0 {
			index, snapshot = append(index, part.Index...), append(snapshot, part.Snapshot...)
		}
		switch left := sealed.Size - p.seen; {
		case part.Size != sealed.Size:
			err = p.wrong("the leader has %d bytes of it, the seal says %d", part.Size, sealed.Size)
		case len(part.Body) == 0 || int64(len(part.Body)) > left:
			err = p.wrong("the leader gave %d bytes, %d are left", len(part.Body), left)
		default:
			_, err = to.Write(part.Body)
		}
		release()
		if err != nil {
			return err
		}
	}
	proven, err := p.check(f, index)
	if err != nil {
		return err
	}
	footer := segment.Footer{Index: proven, SHA256: sealed.SHA256, Snapshot: snapshot, BlockCRCs: p.blocks.Sums()}
	encoded, err := footer.AppendTo(nil)
	if err != nil {
		return err //nolint:wrapcheck // segment says what it builds.
	}
	_, err = f.Write(encoded)
	return err
}

// put puts an object, or proves that it is there.
func (u *Uploader) put(ctx context.Context, key string, s manifest.Segment, f *file) error {
	digest := hex.EncodeToString(s.SHA256[:])
	options := objstore.PutOptions{IfAbsent: true, Metadata: map[string]string{digestKey: digest}}
	_, err := u.cfg.Bucket.Put(ctx, key, io.NewSectionReader(f, 0, f.size), f.size, options)
	if err == nil || !errors.Is(err, objstore.ErrExists) {
		return unavailable("upload segment", err)
	}
	// An earlier life's, another tierer's, or our own whose answer was lost.
	info, err := u.cfg.Bucket.Head(ctx, key)
	if err != nil {
		return unavailable("look at uploaded segment", err)
	}
	if info.Size != f.size || info.Metadata[digestKey] != digest {
		return fault.Errorf(fault.Corrupt, "upload segment: object %s is there with %d bytes and digest %q, expected are %d and %q",
			key, info.Size, info.Metadata[digestKey], f.size, digest)
	}
	return nil
}

func unavailable(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Kind: fault.Unavailable, Op: op, Err: err}
}
