package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/objstore"
)

// racers is how many writers race for one key.
const racers = 16

// Run runs the suite. open gives a bucket that holds nothing under the prefix it also gives; large is the size of an object that the home
// uploads in another way than small ones (0 = it does not).
func Run(t *testing.T, open func(t *testing.T) (bucket objstore.Bucket, prefix string), large int) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, bucketUnderTest){
		"PutGet": testPutGet, "Missing": testMissing, "Ranges": testRanges, "IfAbsent": testIfAbsent, "IfAbsentRace": testIfAbsentRace,
		"IfMatch": testIfMatch, "Overwrite": testOverwrite, "Delete": testDelete, "List": testList, "Large": testLarge, "Canceled": testCanceled,
	} {
		t.Run(name, func(t *testing.T) {
			bucket, prefix := open(t)
			test(t, bucketUnderTest{Bucket: bucket, prefix: prefix, large: large})
		})
	}
}

type bucketUnderTest struct {
	objstore.Bucket

	prefix string
	large  int
}

func (b bucketUnderTest) put(t *testing.T, key string, data []byte, opts objstore.PutOptions) (objstore.Info, error) {
	t.Helper()
	return b.Put(t.Context(), b.prefix+key, bytes.NewReader(data), int64(len(data)), opts) //nolint:wrapcheck // a test looks at it.
}

func (b bucketUnderTest) mustPut(t *testing.T, key string, data []byte) objstore.Info {
	t.Helper()
	info, err := b.put(t, key, data, objstore.PutOptions{})
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return info
}

func (b bucketUnderTest) get(t *testing.T, key string, off, n int64) ([]byte, objstore.Info, error) {
	t.Helper()
	body, info, err := b.Get(t.Context(), b.prefix+key, off, n)
	if err != nil {
		return nil, info, err //nolint:wrapcheck // a test looks at it.
	}
	data, err := io.ReadAll(body)
	return data, info, errors.Join(err, body.Close())
}

func (b bucketUnderTest) wantContent(t *testing.T, key string, want []byte) objstore.Info {
	t.Helper()
	got, info, err := b.get(t, key, 0, -1)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d bytes that are not the %d put", key, len(got), len(want))
	}
	return info
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

func testPutGet(t *testing.T, b bucketUnderTest) {
	for _, size := range []int{0, 1, 1000} {
		key := fmt.Sprintf("dir/object %d+ü", size)
		data := pattern(size)
		put, err := b.put(t, key, data, objstore.PutOptions{Metadata: map[string]string{"sha256": "abc"}})
		if err != nil {
			t.Fatal(err)
		}
		got := b.wantContent(t, key, data)
		head, err := b.Head(t.Context(), b.prefix+key)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, head); diff != "" {
			t.Errorf("get and head differ (-get +head):\n%s", diff)
		}
		if head.Key != b.prefix+key || head.Size != int64(size) || head.Metadata["sha256"] != "abc" || head.Modified.IsZero() {
			t.Errorf("head gives %+v", head)
		}
		if put.ETag == "" || put.ETag != head.ETag {
			t.Errorf("etag %q of put, %q of head", put.ETag, head.ETag)
		}
	}
}

func testMissing(t *testing.T, b bucketUnderTest) {
	_, _, err := b.get(t, "missing", 0, -1)
	wantError(t, "get", err, objstore.ErrNotFound)
	_, _, err = b.get(t, "missing", 5, 10)
	wantError(t, "ranged get", err, objstore.ErrNotFound)
	_, err = b.Head(t.Context(), b.prefix+"missing")
	wantError(t, "head", err, objstore.ErrNotFound)
}

func testRanges(t *testing.T, b bucketUnderTest) {
	data := pattern(100)
	b.mustPut(t, "ranges", data)
	b.mustPut(t, "empty", nil)
	for _, c := range []struct{ off, n, to int64 }{{0, 10, 10}, {10, 1, 11}, {90, 10, 100}, {90, 100, 100}, {99, -1, 100}, {40, -1, 100}, {5, 0, 5}} {
		got, info, err := b.get(t, "ranges", c.off, c.n)
		if err != nil {
			t.Fatalf("get [%d, +%d): %v", c.off, c.n, err)
		}
		if !bytes.Equal(got, data[c.off:c.to]) || info.Size != 100 {
			t.Errorf("get [%d, +%d) gives %d bytes %q of %d", c.off, c.n, len(got), got, info.Size)
		}
	}
	for _, c := range []struct {
		key    string
		off, n int64
	}{{"ranges", 100, 1}, {"ranges", 100, -1}, {"ranges", 1000, 5}, {"empty", 0, 1}} {
		_, _, err := b.get(t, c.key, c.off, c.n)
		wantError(t, fmt.Sprintf("get %s [%d, +%d)", c.key, c.off, c.n), err, objstore.ErrRange)
	}
}

func testIfAbsent(t *testing.T, b bucketUnderTest) {
	first := pattern(50)
	if _, err := b.put(t, "once", first, objstore.PutOptions{IfAbsent: true}); err != nil {
		t.Fatal(err)
	}
	_, err := b.put(t, "once", pattern(60), objstore.PutOptions{IfAbsent: true})
	wantError(t, "second put", err, objstore.ErrExists)
	b.wantContent(t, "once", first)
}

func testIfAbsentRace(t *testing.T, b bucketUnderTest) {
	var tasks sync.WaitGroup
	errs := make([]error, racers)
	for i := range racers {
		tasks.Go(func() {
			_, errs[i] = b.put(t, "raced", pattern(100+i), objstore.PutOptions{IfAbsent: true})
		})
	}
	tasks.Wait()
	winner := -1
	for i, err := range errs {
		switch {
		case err == nil && winner >= 0:
			t.Fatalf("writers %d and %d both won", winner, i)
		case err == nil:
			winner = i
		case !errors.Is(err, objstore.ErrExists) && !errors.Is(err, objstore.ErrUnavailable):
			t.Errorf("writer %d: %v", i, err)
		}
	}
	if winner < 0 {
		t.Fatalf("nobody won: %v", errs)
	}
	b.wantContent(t, "raced", pattern(100+winner))
}

func testIfMatch(t *testing.T, b bucketUnderTest) {
	first := b.mustPut(t, "matched", pattern(10))
	second, err := b.put(t, "matched", pattern(11), objstore.PutOptions{IfMatch: first.ETag})
	if err != nil || second.ETag == first.ETag {
		t.Fatalf("put with the right etag: %+v, %v", second, err)
	}
	_, err = b.put(t, "matched", pattern(12), objstore.PutOptions{IfMatch: first.ETag})
	wantError(t, "put with an old etag", err, objstore.ErrPrecondition)
	if errors.Is(err, objstore.ErrExists) {
		t.Error("an old etag is ErrExists")
	}
	b.wantContent(t, "matched", pattern(11))
}

func testOverwrite(t *testing.T, b bucketUnderTest) {
	b.mustPut(t, "over", pattern(200))
	b.mustPut(t, "over", pattern(20))
	b.wantContent(t, "over", pattern(20))
}

func testDelete(t *testing.T, b bucketUnderTest) {
	b.mustPut(t, "gone", pattern(10))
	for range 2 {
		if err := b.Delete(t.Context(), b.prefix+"gone"); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := b.get(t, "gone", 0, -1)
	wantError(t, "get", err, objstore.ErrNotFound)
}

func testList(t *testing.T, b bucketUnderTest) {
	var want []string
	for i := range 7 {
		key := fmt.Sprintf("list/%d", i)
		b.mustPut(t, key, pattern(i))
		want = append(want, b.prefix+key)
	}
	b.mustPut(t, "other/1", nil)
	for _, c := range []struct {
		after    string
		limit    int
		from, to int
	}{{"", 100, 0, 7}, {"", 3, 0, 3}, {want[2], 3, 3, 6}, {want[6], 3, 7, 7}, {b.prefix + "list/11", 100, 2, 7}} {
		infos, err := b.List(t.Context(), b.prefix+"list/", c.after, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for _, info := range infos {
			got = append(got, info.Key)
		}
		if diff := cmp.Diff(append([]string{}, want[c.from:c.to]...), got); diff != "" {
			t.Errorf("list after %q limit %d (-want +got):\n%s", c.after, c.limit, diff)
		}
	}
	infos, err := b.List(t.Context(), b.prefix+"list/6", "", 1)
	if err != nil || len(infos) != 1 || infos[0].Size != 6 || infos[0].Modified.IsZero() {
		t.Errorf("list tells %+v, %v", infos, err)
	}
}

func testLarge(t *testing.T, b bucketUnderTest) {
	if b.large == 0 {
		return // the home has one way of uploading, which the others test
	}
	data := pattern(b.large)
	opts := objstore.PutOptions{IfAbsent: true, Metadata: map[string]string{"kind": "large"}}
	if _, err := b.put(t, "large", data, opts); err != nil {
		t.Fatal(err)
	}
	if info := b.wantContent(t, "large", data); info.Metadata["kind"] != "large" {
		t.Errorf("metadata %v", info.Metadata)
	}
	got, _, err := b.get(t, "large", int64(b.large/2), 100)
	if err != nil || !bytes.Equal(got, data[b.large/2:b.large/2+100]) {
		t.Errorf("range of a large object: %d bytes, %v", len(got), err)
	}
	_, err = b.put(t, "large", data, opts)
	wantError(t, "second put of a large object", err, objstore.ErrExists)
}

func testCanceled(t *testing.T, b bucketUnderTest) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Put(ctx, b.prefix+"never", bytes.NewReader(nil), 0, objstore.PutOptions{})
	wantError(t, "put", err, objstore.ErrUnavailable)
	wantError(t, "put", err, context.Canceled)
	_, err = b.Head(ctx, b.prefix+"never")
	wantError(t, "head", err, objstore.ErrUnavailable)
}

// pattern gives bytes that differ by place and by length.
func pattern(size int) []byte {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i*31 + i>>8 + i>>16*7 + size)
	}
	return data
}
