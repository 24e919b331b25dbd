package line_test

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/cli/internal/line"
)

func scan(in io.Reader, raw bool, limit int) ([]string, error) {
	s := line.NewScanner(in, raw, limit)
	var got []string
	for {
		record, err := s.Next()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, string(record))
	}
}

func TestRecords(t *testing.T) {
	for _, c := range []struct {
		in         string
		lines, raw []string
	}{
		{"", nil, nil},
		{"a", []string{"a"}, []string{"a"}},
		{"a\n", []string{"a"}, []string{"a\n"}},
		{"\n", []string{""}, []string{"\n"}},
		{"a\r\nb\rc\n\r\n", []string{"a", "b\rc", ""}, []string{"a\r\n", "b\rc\n", "\r\n"}},
		{"a\n\nb", []string{"a", "", "b"}, []string{"a\n", "\n", "b"}},
		{"a\r", []string{"a\r"}, []string{"a\r"}},
		{"\x00\xff\n\x00", []string{"\x00\xff", "\x00"}, []string{"\x00\xff\n", "\x00"}},
	} {
		for _, reader := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
			for raw, want := range map[bool][]string{false: c.lines, true: c.raw} {
				got, err := scan(reader(strings.NewReader(c.in)), raw, 10)
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%q raw=%v: %v %s", c.in, raw, err, diff)
				}
			}
		}
	}
}

// The limit is met to the byte, and what lies before a line above it is given.
func TestLimit(t *testing.T) {
	for _, n := range []int{1, 100, 1 << 20, 5 << 20} {
		long := strings.Repeat("x", n)
		if got, err := scan(strings.NewReader("a\n"+long+"\r\nb"), false, n); err != nil || len(got) != 3 || got[1] != long {
			t.Errorf("%d: %d records, %v", n, len(got), err)
		}
		if got, err := scan(strings.NewReader("a\n"+long+"\n"), true, n+1); err != nil || len(got) != 2 {
			t.Errorf("raw %d: %d records, %v", n, len(got), err)
		}
		for _, end := range []string{"", "\n", "y\r\n", strings.Repeat("y", 10<<20)} {
			if len(end) < 2 {
				end = "y" + end
			}
			got, err := scan(strings.NewReader("a\n"+long+end), false, n)
			var long *line.TooLongError
			if !errors.As(err, &long) || long.Line != 2 || long.Limit != n || !slices.Equal(got, []string{"a"}) {
				t.Errorf("%d and %d more: %q, %v", n, len(end), got, err)
			}
		}
	}
}

func TestErrorOfTheStream(t *testing.T) {
	broken := errors.New("broken")
	got, err := scan(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), true, 10)
	if !errors.Is(err, broken) || !slices.Equal(got, []string{"a\n"}) {
		t.Errorf("%q %v", got, err)
	}
}

// Raw records joined are the stream.
func FuzzRawJoins(f *testing.F) {
	f.Add([]byte("a\r\nb\rc"), 3)
	f.Add(bytes.Repeat([]byte("0123456789\n"), 300_000), 1<<16)
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		s := line.NewScanner(&stepReader{in, max(step, 1)}, true, len(in))
		var joined []byte
		for {
			record, err := s.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || len(record) == 0 {
				t.Fatalf("%d bytes, %v", len(record), err)
			}
			joined = append(joined, record...)
		}
		if !bytes.Equal(in, joined) {
			t.Errorf("%d bytes in, %d out", len(in), len(joined))
		}
	})
}

type stepReader struct {
	rest []byte
	step int
}

func (r *stepReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:min(r.step, len(r.rest))])
	r.rest = r.rest[n:]
	return n, nil
}

func BenchmarkScan(b *testing.B) {
	data := bytes.Repeat([]byte(strings.Repeat("x", 99)+"\n"), 100_000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		s := line.NewScanner(bytes.NewReader(data), true, 1<<20)
		for {
			if _, err := s.Next(); err != nil {
				break
			}
		}
	}
}
