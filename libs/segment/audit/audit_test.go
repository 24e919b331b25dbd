package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/audit"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
)

const dir = "log"

// logOf makes a log of three segments: one sealed, one closed, one open.
func logOf(t testing.TB) (*memfs.FS, []partition.Offset) {
	t.Helper()
	fsys := memfs.New()
	if err := fsys.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	files := segment.NewFiles(fsys, 4)
	p := segmenttest.New(t)
	var bases []partition.Offset
	var open *segment.Open
	for i := range 3 {
		bases = append(bases, p.End)
		o, err := segment.Create(files, dir, p.End, segmenttest.Tag, p.Chain, 0)
		if err != nil {
			t.Fatal(err)
		}
		var frames []segment.Frame
		for j := range 6 {
			msg := p.Data(2, 20_000, j == 0)
			frames = append(frames, segment.Frame{Header: p.Header(msg), Message: msg, Next: batch.NextChain(msg)})
		}
		if err := o.Append(frames); err != nil {
			t.Fatal(err)
		}
		if open = o; i == 2 {
			break
		}
		closed, err := o.Close(func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			sum, err := closed.Reader().Digest()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := closed.Seal(sum, []byte("state")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := open.Sync(open.Summary().Size); err != nil {
		t.Fatal(err)
	}
	return fsys, bases
}

func edit(t testing.TB, fsys vfs.FS, name string, change func(f vfs.File, size int64) error) {
	t.Helper()
	f, err := fsys.Open(dir+"/"+name, vfs.Write|vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, err := f.Size()
	if err == nil {
		err = change(f, size)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func flip(at int64) func(f vfs.File, size int64) error {
	return func(f vfs.File, size int64) error {
		if at < 0 {
			at += size
		}
		p := make([]byte, 1)
		if _, err := f.ReadAt(p, at); err != nil {
			return err
		}
		p[0] ^= 1
		_, err := f.WriteAt(p, at)
		return err
	}
}

func TestLog(t *testing.T) {
	name := func(base partition.Offset, part segment.Part) string { return segment.Name(base, part) }
	for _, test := range []struct {
		what   string
		change func(fsys vfs.FS, bases []partition.Offset)
		damage bool
		say    string // "" = nothing
	}{
		{"whole", func(vfs.FS, []partition.Offset) {}, false, ""},
		{"sealed log damaged", func(f vfs.FS, b []partition.Offset) { edit(t, f, name(b[0], segment.LogPart), flip(30_000)) }, true, "[0, 2) cannot be read"},
		{"closed log damaged", func(f vfs.FS, b []partition.Offset) { edit(t, f, name(b[1], segment.LogPart), flip(-9)) }, true, "[22, 24) cannot be read"},
		{"open log damaged", func(f vfs.FS, b []partition.Offset) { edit(t, f, name(b[2], segment.LogPart), flip(-9)) }, false, "torn"},
		{"index damaged", func(f vfs.FS, b []partition.Offset) { edit(t, f, name(b[1], segment.IndexPart), flip(99)) }, false, "cannot be used"},
		{"index missing", func(f vfs.FS, b []partition.Offset) { _ = f.Remove(dir + "/" + name(b[1], segment.IndexPart)) }, false, "missing"},
		{"snapshot damaged", func(f vfs.FS, b []partition.Offset) { edit(t, f, name(b[0], segment.SnapshotPart), flip(-1)) }, true, "checksum of the state"},
		{"segment missing", func(f vfs.FS, b []partition.Offset) { _ = f.Remove(dir + "/" + name(b[1], segment.LogPart)) }, true, "[12, 24) cannot be read: the file ends"},
		{"foreign file", func(f vfs.FS, _ []partition.Offset) {
			edit(t, f, "notes.txt", func(vfs.File, int64) error { return nil })
		}, false, "not a file of a log"},
		{"unfinished file", func(f vfs.FS, b []partition.Offset) {
			edit(t, f, name(b[1], segment.IndexPart)+segment.TempSuffix, func(vfs.File, int64) error { return nil })
		}, false, "unfinished"},
		{"index of another segment", func(f vfs.FS, b []partition.Offset) {
			_ = f.Rename(dir+"/"+name(b[0], segment.IndexPart), dir+"/"+name(b[1], segment.IndexPart))
		}, true, "the frames"},
		{"a sealed segment swapped for a valid other", func(f vfs.FS, b []partition.Offset) {
			p := segmenttest.New(t)
			other := p.Data(12, 10_000, true)
			_ = f.Remove(dir + "/" + name(b[0], segment.IndexPart))
			edit(t, f, name(b[0], segment.LogPart), func(file vfs.File, _ int64) error {
				if err := file.Truncate(int64(len(other))); err != nil {
					return err
				}
				_, err := file.WriteAt(other, 0)
				return err
			})
		}, true, "has chain"},
	} {
		fsys, bases := logOf(t)
		test.change(fsys, bases)
		r, err := audit.Log(t.Context(), fsys, dir)
		if err != nil {
			t.Errorf("%s: %v", test.what, err)
			continue
		}
		said := fmt.Sprint(r.Findings)
		if r.Damaged() != test.damage || !strings.Contains(said, test.say) || (test.say == "") != (len(r.Findings) == 0) {
			t.Errorf("%s: %s", test.what, said)
		}
		if test.say == "" && (r.Start != 0 || r.End != 36 || r.Batches != 18 || len(r.Segments) != 3) {
			t.Errorf("%s: %+v", test.what, r)
		}
	}
	if _, err := audit.Log(t.Context(), memfs.New(), "nowhere"); err == nil {
		t.Error("a directory that is not there is fine")
	}
}
