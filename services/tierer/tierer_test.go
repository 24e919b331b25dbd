package tierer_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/objstore/flakybucket"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/tierer/internal/standin"
)

// TestSegmentsTravel has segments go from broker to bucket, their table into a manifest, and readers get the same bytes back.
func TestSegmentsTravel(t *testing.T) {
	w := newWorld(t)
	sealed := w.seal(id, 3, 20, 5, 20_000) // 2 MB each: several blocks
	sealed = append(sealed, w.seal(id, 1, 1, 1, 10)...)
	r := w.start("tierer")
	w.exported(id)

	var want []byte
	var keys []string
	for _, s := range sealed {
		want = append(want, s.Bytes...)
		keys = append(keys, manifest.SegmentKey(w.cluster, id, manifest.Segment{Base: s.Base, End: s.End, Epoch: s.Epoch, SHA256: s.SHA256}))
	}
	if diff := cmp.Diff(keys, w.segments(id)); diff != "" {
		t.Fatalf("objects (-want +got):\n%s", diff)
	}
	for i, s := range sealed {
		object := w.object(keys[i])
		if !bytes.Equal(object[:s.Size], s.Bytes) {
			t.Errorf("object %d does not begin with the segment", i)
		}
		footer, err := segment.ParseFooter(object[s.Size:])
		if err != nil {
			t.Fatalf("footer %d: %v", i, err)
		}
		if footer.SHA256 != s.SHA256 || string(footer.Snapshot) != "snapshot" || !bytes.Equal(footer.Index.AppendTo(nil), s.Index) {
			t.Errorf("footer %d is %+v", i, footer.Index.Summary)
		}
	}
	w.checkManifest(id)

	end := sealed[len(sealed)-1].End
	g := w.gateway(r)
	for _, maxBytes := range []uint32{1, 100_000, 0, 1 << 30} {
		if got := g.readAll(id, 0, end, maxBytes); !bytes.Equal(got, want) {
			t.Errorf("reading %d bytes at a time gives %d bytes that are not the %d written", maxBytes, len(got), len(want))
		}
	}
	if body, next, err := g.fetch(id, 57, 1); err != nil || !bytes.Equal(body, sealed[0].Batches[11]) || next != 60 {
		t.Errorf("from within a batch: %d bytes, next %d, %v", len(body), next, err)
	}
	var remote *frame.RemoteError
	if _, _, err := g.fetch(id, end, 0); !errors.As(err, &remote) || remote.Kind != wirecapnp.ErrorKind_offsetOutOfRange || remote.Offset != uint64(end) {
		t.Errorf("at the tier end: %v", err)
	}
	if hits := r.count(t, "sq_tierer_blockcache_hits_total"); hits == 0 {
		t.Error("no block was found in the cache")
	}
	if uploads := r.count(t, "sq_tierer_uploads_total"); uploads != 4 {
		t.Errorf("%v uploads counted", uploads)
	}
}

// checkManifest proves that the manifest that the leader was told of has the leader's table.
func (w *world) checkManifest(id partition.ID) {
	w.t.Helper()
	w.broker.With(id, func(l *standin.Log) {
		m, err := manifest.Parse(w.object(manifest.Key(w.cluster, l.Sequence)))
		if err != nil {
			w.t.Fatal(err)
		}
		at := slices.IndexFunc(m.Tables, func(t manifest.Table) bool { return t.Partition == id })
		if m.Cluster != w.cluster || m.Sequence != l.Sequence || at < 0 {
			w.t.Fatalf("manifest %d of cluster %v has no table of %v", m.Sequence, m.Cluster, id)
		}
		got := m.Tables[at]
		if got.Epoch != l.Epoch || got.Version != l.Version || got.TierEnd != l.TierEnd || got.LogStart != l.LogStart {
			w.t.Errorf("the table is %+v", got)
		}
		for i, s := range got.Segments {
			s.Key = s.KeyIn(w.cluster, id)
			if want := l.Tiered[len(l.Tiered)-len(got.Segments)+i]; s != want {
				w.t.Errorf("segment %d is %+v, want %+v", i, s, want)
			}
		}
	})
}

func TestOffsetsByTime(t *testing.T) {
	w := newWorld(t)
	w.seal(id, 3, 10, 2, 100) // batches of two records, 1 ms apart, the first at second 1
	r := w.start("tierer")
	w.exported(id)
	g := w.gateway(r)
	for micros, want := range map[int64]partition.Offset{
		0: 0, 1_000_000: 0, 1_000_001: 2, 1_009_000: 18, 1_009_001: 20, 1_010_000: 20, 1_029_000: 58, 1_029_001: 60, 1 << 60: 60,
	} {
		if got, end := g.offsetAt(id, micros); got != want || end != 60 {
			t.Errorf("time %d: offset %d of %d, want %d", micros, got, end, want)
		}
	}
	w.broker.With(id, func(l *standin.Log) { l.LogStart = 25; l.Version++ })
	w.exported(id)
	if got, _ := g.offsetAt(id, 0); got != 25 {
		t.Errorf("below the log start: offset %d", got)
	}
	var remote *frame.RemoteError
	if _, _, err := g.fetch(id, 3, 0); !errors.As(err, &remote) || remote.Kind != wirecapnp.ErrorKind_offsetTrimmed || remote.Offset != 25 {
		t.Errorf("fetch below the log start: %v", err)
	}
}

func TestNewSegmentsAreFoundWhileReading(t *testing.T) {
	w := newWorld(t)
	first := w.seal(id, 1, 5, 2, 100)
	r := w.start("tierer")
	w.exported(id)
	g := w.gateway(r)
	g.readAll(id, 0, first[0].End, 0)
	second := w.seal(id, 20, 5, 2, 100) // more than one harvest takes
	w.exported(id)
	end := second[len(second)-1].End
	if got := g.readAll(id, first[0].End, end, 0); !bytes.HasSuffix(got, second[len(second)-1].Bytes) {
		t.Errorf("%d bytes read of what is new", len(got))
	}
	w.checkManifest(id)
}

// TestUnansweredUpload has the store take a segment and a manifest and not say so.
func TestUnansweredUpload(t *testing.T) {
	w := newWorld(t)
	w.bucket.Set(
		flakybucket.Rule{Op: flakybucket.Put, Key: ".seg", Times: 1, Effect: flakybucket.Ambiguous},
		flakybucket.Rule{Op: flakybucket.Put, Key: "/manifest/", Times: 1, Effect: flakybucket.Ambiguous},
	)
	w.seal(id, 1, 5, 2, 100)
	w.start("tierer")
	w.exported(id)
	if objects := w.segments(id); len(objects) != 1 {
		t.Errorf("segments %v", objects)
	}
	if objects := w.objects(manifest.Prefix(w.cluster)); len(objects) != 1 {
		t.Errorf("manifests %v", objects)
	}
	w.checkManifest(id)
}

// TestOtherObjectUnderTheName has something else lie where a segment is to go: it must not be committed.
func TestOtherObjectUnderTheName(t *testing.T) {
	w := newWorld(t)
	s := w.seal(id, 1, 5, 2, 100)[0]
	key := manifest.SegmentKey(w.cluster, id, manifest.Segment{Base: s.Base, End: s.End, Epoch: s.Epoch, SHA256: s.SHA256})
	if _, err := w.inside.Put(t.Context(), key, strings.NewReader("foreign"), 7, noOptions); err != nil {
		t.Fatal(err)
	}
	r := w.start("tierer")
	w.eventually("refused", func() bool { return r.count(t, "sq_tierer_upload_failures_total") >= 2 })
	if w.broker.Calls(wirecapnp.Request_Which_commitTier) != 0 {
		t.Error("it was committed")
	}
	if string(w.object(key)) != "foreign" {
		t.Error("it was replaced")
	}
	if !strings.Contains(w.log.String(), "is there with 7 bytes") {
		t.Error("the log does not say why")
	}
}

// TestDamagedSegment has the leader's bytes arrive damaged in every possible way: nothing may get into the bucket.
func TestDamagedSegment(t *testing.T) {
	other := partition.ID{Topic: id.Topic, Index: 4}
	for name, spoil := range map[string]func(l *standin.Log, base partition.Offset, position int64, body []byte) []byte{
		"a bit": func(_ *standin.Log, _ partition.Offset, _ int64, body []byte) []byte {
			body[len(body)/2] ^= 1
			return body
		},
		"cut short for ever": func(_ *standin.Log, _ partition.Offset, position int64, body []byte) []byte {
			if position > 0 {
				return nil
			}
			return body[:len(body)-1]
		},
		"too long": func(_ *standin.Log, _ partition.Offset, _ int64, body []byte) []byte { return append(body, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.lead(other, 1)
			w.broker.Spoil(func(l *standin.Log, base partition.Offset, position int64, body []byte) []byte {
				if l.ID == other {
					return body
				}
				return spoil(l, base, position, body)
			})
			w.seal(id, 1, 5, 2, 100)
			w.seal(other, 1, 5, 2, 100)
			r := w.start("tierer")
			w.exported(other) // is not kept waiting
			w.eventually("refused", func() bool { return r.count(t, "sq_tierer_upload_failures_total") >= 2 })
			if objects := w.segments(id); len(objects) != 0 {
				t.Errorf("objects %v", objects)
			}
			w.broker.Spoil(nil)
			w.exported(id) // once the bytes are right
		})
	}
}

// TestLyingLeader has a leader whose seal does not belong to its bytes, though every batch is good.
func TestLyingLeader(t *testing.T) {
	for name, lie := range map[string]func(*standin.Segment){
		"digest":      func(s *standin.Segment) { s.SHA256[0] ^= 1 },
		"end":         func(s *standin.Segment) { s.End++ },
		"epoch":       func(s *standin.Segment) { s.Epoch++ },
		"append time": func(s *standin.Segment) { s.LastAppendTime++ },
		"index":       func(s *standin.Segment) { s.Index[10] ^= 1 },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.seal(id, 1, 5, 2, 100)[0]
			w.broker.With(id, func(*standin.Log) { lie(s) })
			r := w.start("tierer")
			w.eventually("refused", func() bool { return r.count(t, "sq_tierer_upload_failures_total") >= 1 })
			if objects := w.segments(id); len(objects) != 0 {
				t.Errorf("objects %v", objects)
			}
		})
	}
}

// TestStoreAway has the object store away at start, and later once more.
func TestStoreAway(t *testing.T) {
	w := newWorld(t)
	w.bucket.Set(flakybucket.Rule{Effect: flakybucket.Fail})
	w.seal(id, 1, 5, 2, 100)
	r := w.start("tierer")
	w.eventually("told", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), "use object store: put")
	})
	if calls := w.broker.Calls(wirecapnp.Request_Which_readSealed); calls != 0 {
		t.Errorf("%d reads of segments that cannot be uploaded", calls)
	}
	w.bucket.Set()
	w.exported(id)
	w.ready(r)

	w.bucket.Set(flakybucket.Rule{Effect: flakybucket.Fail})
	w.seal(id, 2, 5, 2, 100)
	w.eventually("told", func() bool { return r.Ready() != nil })
	w.bucket.Set()
	w.exported(id)
	w.ready(r)
	if left := w.objects(w.cluster.String() + "/probe/"); len(left) != 0 {
		t.Errorf("the probe left %v", left)
	}
}

// TestExportLag has manifests be refused: the lag grows, and ends with the export.
func TestExportLag(t *testing.T) {
	w := newWorld(t)
	w.bucket.Set(flakybucket.Rule{Op: flakybucket.Put, Key: "/manifest/", Effect: flakybucket.Fail})
	w.seal(id, 1, 5, 2, 100)
	r := w.start("tierer")
	w.eventually("behind", func() bool { return r.count(t, "sq_tierer_export_lag_seconds") > 0 })
	w.broker.With(id, func(l *standin.Log) {
		if l.ExportedEnd != 0 || l.TierEnd != l.End() {
			t.Errorf("tier end %d, exported end %d", l.TierEnd, l.ExportedEnd)
		}
	})
	w.bucket.Set()
	w.exported(id)
	w.eventually("no longer behind", func() bool { return r.count(t, "sq_tierer_export_lag_seconds") == 0 })
}

// TestUnfitStore has a store that ignores conditions: it must not be used.
func TestUnfitStore(t *testing.T) {
	w := newWorld(t)
	w.bucket = flakybucket.New(careless{w.inside})
	w.seal(id, 1, 5, 2, 100)
	r := w.start("tierer")
	w.eventually("told", func() bool {
		err := r.Ready()
		return err != nil && strings.Contains(err.Error(), "a second conditional PUT of a key gives")
	})
	if objects := w.segments(id); len(objects) != 0 {
		t.Errorf("objects %v", objects)
	}
}

// TestDamagedObject has reads from the bucket come damaged: once, which is made good, and for ever, which is an error and no short answer.
func TestDamagedObject(t *testing.T) {
	for name, effect := range map[string]flakybucket.Effect{"corrupt": flakybucket.Corrupt, "fail": flakybucket.Fail, "short": flakybucket.Short} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := w.seal(id, 1, 30, 5, 20_000)[0]
			r := w.start("tierer")
			w.exported(id)
			g := w.gateway(r)
			w.bucket.Set(flakybucket.Rule{Op: flakybucket.Get, Key: ".seg", Effect: effect})
			for range 2 {
				if body, _, err := g.fetch(id, 0, 0); err == nil {
					t.Fatalf("%d bytes of a damaged object", len(body))
				} else if corrupt := isKind(err, wirecapnp.ErrorKind_corrupt); corrupt != (effect == flakybucket.Corrupt) {
					t.Errorf("error %v", err)
				}
			}
			if effect == flakybucket.Corrupt {
				w.bucket.Set( // the footer, then a block, each once
					flakybucket.Rule{Op: flakybucket.Get, Key: ".seg", Times: 1, Effect: effect},
					flakybucket.Rule{Op: flakybucket.Get, Key: ".seg", After: 1, Times: 1, Effect: effect},
				)
			} else {
				w.bucket.Set()
			}
			if got := g.readAll(id, 0, s.End, 0); !bytes.Equal(got, s.Bytes) {
				t.Error("the bytes are not those written")
			}
			if rereads := r.count(t, "sq_tierer_coldread_rereads_total"); (rereads > 0) != (effect == flakybucket.Corrupt) {
				t.Errorf("%v rereads", rereads)
			}
		})
	}
}

func isKind(err error, kind wirecapnp.ErrorKind) bool {
	var remote *frame.RemoteError
	return errors.As(err, &remote) && remote.Kind == kind
}

// TestLostObject has an object that the table names vanish: that is damage, not an end of the log.
func TestLostObject(t *testing.T) {
	w := newWorld(t)
	w.seal(id, 1, 5, 2, 100)
	r := w.start("tierer")
	w.exported(id)
	if err := w.inside.Delete(t.Context(), w.segments(id)[0]); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.gateway(r).fetch(id, 0, 0); !isKind(err, wirecapnp.ErrorKind_corrupt) {
		t.Errorf("error %v", err)
	}
}

// TestCollect has the leader name keys to delete: only those that the table no longer has, and only the partition's own.
func TestCollect(t *testing.T) {
	w := newWorld(t)
	sealed := w.seal(id, 3, 5, 2, 100)
	other := partition.ID{Topic: id.Topic, Index: 4}
	w.lead(other, 1)
	w.seal(other, 1, 5, 2, 100)
	w.start("tierer")
	w.exported(id)
	w.exported(other)
	keys, foreign := w.segments(id), w.segments(other)
	w.broker.With(id, func(l *standin.Log) {
		l.LogStart = sealed[0].End
		l.Tiered = l.Tiered[1:]
		l.Version++
		l.Collectable = []string{keys[0]}
	})
	w.broker.WaitFor(id, "collected", func(l *standin.Log) bool { return len(l.Collected) == 1 })
	if diff := cmp.Diff(keys[1:], w.segments(id)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	w.exported(id)
	w.checkManifest(id)

	for _, bad := range []string{keys[1], foreign[0], "anything", manifest.Key(w.cluster, 1)} {
		deletes := w.bucket.Calls(flakybucket.Delete)
		said := strings.Count(w.log.String(), "cannot tier partition")
		w.broker.With(id, func(l *standin.Log) { l.Collectable = []string{bad} })
		w.eventually("refused", func() bool { return strings.Count(w.log.String(), "cannot tier partition") > said })
		w.broker.With(id, func(l *standin.Log) { l.Collectable = nil })
		if w.bucket.Calls(flakybucket.Delete) != deletes {
			t.Errorf("%q was deleted", bad)
		}
	}
}

// TestLeadershipMoves has another epoch's leader, who knows of no export, get one.
func TestLeadershipMoves(t *testing.T) {
	w := newWorld(t)
	w.seal(id, 1, 5, 2, 100)
	w.start("tierer")
	w.exported(id)
	var sequence uint64
	w.broker.With(id, func(l *standin.Log) { sequence = l.Sequence; l.ExportedEnd, l.ExportedVersion = 0, 0 })
	w.lead(id, 2)
	w.seal(id, 1, 5, 2, 100)
	w.exported(id)
	w.checkManifest(id)
	w.broker.With(id, func(l *standin.Log) {
		if l.Sequence <= sequence {
			t.Errorf("manifest %d after %d", l.Sequence, sequence)
		}
	})
}

// TestTierersShareAndTakeOver has two tierers split the partitions, and one go.
func TestTierersShareAndTakeOver(t *testing.T) {
	w := newWorld(t)
	first, second := w.start("first"), w.start("second")
	w.ready(first)
	w.ready(second)
	var ids []partition.ID
	for i := range 20 {
		ids = append(ids, partition.ID{Topic: id.Topic, Index: partition.Index(10 + i)})
		w.lead(ids[i], 1)
		w.seal(ids[i], 1, 2, 2, 100)
	}
	for _, each := range ids {
		w.exported(each)
		w.checkManifest(each)
	}
	a, b := first.count(t, "sq_tierer_uploads_total"), second.count(t, "sq_tierer_uploads_total")
	if a == 0 || b == 0 || a+b < 20 {
		t.Errorf("%v and %v uploads", a, b)
	}
	g := w.gateway(second) // each serves all
	for _, each := range ids {
		g.readAll(each, 0, 4, 0)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	for _, each := range ids {
		w.seal(each, 1, 2, 2, 100)
	}
	for _, each := range ids {
		w.exported(each)
	}
}

// TestEtcdAwayAtStart has etcd not answer at first.
func TestEtcdAwayAtStart(t *testing.T) {
	w := newWorld(t)
	w.seal(id, 1, 5, 2, 100)
	w.store.SetUnavailable(true)
	r := w.start("tierer")
	w.eventually("told", func() bool { return strings.Contains(w.log.String(), "etcd does not answer") })
	if err := r.Ready(); err == nil || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("ready says %v", err)
	}
	w.store.SetUnavailable(false)
	w.exported(id)
	w.ready(r)
}

// TestRegistration has the tierer known while it runs, and no longer.
func TestRegistration(t *testing.T) {
	w := newWorld(t)
	r := w.start("tierer")
	w.ready(r)
	kv, ok, _, err := w.store.Get(t.Context(), topology.TiererLiveKey("tierer"))
	if err != nil || !ok {
		t.Fatalf("registered: %v, %v", ok, err)
	}
	live, err := topology.Decode[topology.Live](kv.Value)
	if err != nil || live.Capnp != r.Addrs().Capnp || live.HTTP != r.Addrs().HTTP || kv.Lease == 0 {
		t.Errorf("live %+v, %v", live, err)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, ok, _, _ := w.store.Get(context.Background(), topology.TiererLiveKey("tierer")); ok {
		t.Error("still registered")
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	r := w.start("tierer")
	w.ready(r)
	g := w.gateway(r)
	if _, _, err := g.fetch(partition.ID{Topic: partition.UUIDOf(9, 9)}, 0, 0); !isKind(err, wirecapnp.ErrorKind_notFound) {
		t.Errorf("unknown topic: %v", err)
	}
	if _, err := g.Call(t.Context(), func(request wirecapnp.Request) error {
		_, err := request.NewInitProducer()
		return err
	}); !isKind(err, wirecapnp.ErrorKind_invalid) {
		t.Errorf("a call for brokers: %v", err)
	}
	conn, err := w.network.At("gateway").Dial(t.Context(), r.Addrs().Capnp)
	if err != nil {
		t.Fatal(err)
	}
	stranger := frame.NewClient(conn, frame.ClientConfig{})
	defer func() { _ = stranger.Close() }()
	if _, err := stranger.Hello(t.Context(), frame.HelloParams{ClusterID: partition.UUIDOf(5, 5).String()}); !isKind(err, wirecapnp.ErrorKind_wrongCluster) {
		t.Errorf("another cluster's gateway: %v", err)
	}
}
