package cursor

import (
	"encoding/base64"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

func sample() Cursor {
	return Cursor{Topic: partition.UUIDOf(5, 6), First: 1, Positions: []Position{{0, 0, 0}, {3, 1 << 40, 9}, {700, math.MaxInt64, math.MaxUint64}}}
}

func TestOpenGivesBackWhatSealTook(t *testing.T) {
	s := NewSealer(partition.UUIDOf(1, 2))
	for _, want := range []Cursor{sample(), {Topic: partition.UUIDOf(5, 6), Positions: []Position{}}} {
		got, err := s.Open(s.Seal(want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if full := sample(); full.At(3) != &full.Positions[1] || full.At(4) != nil {
		t.Error("At finds the wrong position")
	}
}

// Any change of a character, any cut and another cluster's cursor is told from a good one.
func TestOpenRefusesEveryOtherText(t *testing.T) {
	s := NewSealer(partition.UUIDOf(1, 2))
	text := s.Seal(sample())
	refuse := func(what, text string) {
		t.Helper()
		if c, err := s.Open(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
	}
	for i := range text {
		changed := []byte(text)
		if changed[i]++; changed[i] == text[i] {
			continue
		}
		refuse("changed", string(changed))
		refuse("cut", text[:i])
	}
	refuse("longer", text+"A")
	refuse("newline inside", text[:4]+"\n"+text[4:])
	refuse("huge", string(make([]byte, TextMax+1)))
	refuse("another cluster's", NewSealer(partition.UUIDOf(1, 3)).Seal(sample()))
}

// What has a right MAC and lies inside is refused, too.
func TestOpenChecksWhatTheMACCovers(t *testing.T) {
	s := NewSealer(partition.UUIDOf(1, 2))
	topic := make([]byte, idBytes)
	for name, body := range map[string][]byte{
		"count without positions": append(append([]byte{version}, topic...), 0, 200),
		"first beyond count":      append(append([]byte{version}, topic...), 1, 1, 0, 0, 0),
		"same partition twice":    append(append([]byte{version}, topic...), 0, 2, 1, 0, 0, 0, 0, 0),
		"trailing byte":           append(append([]byte{version}, topic...), 0, 1, 1, 0, 0, 0),
		"newer version":           append(append([]byte{version + 1}, topic...), 0, 0),
	} {
		if c, err := s.Open(base64.RawURLEncoding.EncodeToString(append(body, s.mac(body)...))); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	s := NewSealer(partition.UUIDOf(1, 2))
	f.Add([]byte(s.Seal(sample())))
	f.Add(append(append([]byte{version}, make([]byte, idBytes)...), 0, 1, 1, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = s.Open(string(data))
		if len(data) > idBytes && data[0] == version { // as if the MAC were right
			if c, err := decode(data[1:]); err == nil {
				again, err := s.Open(s.Seal(c))
				if diff := cmp.Diff(c, again); err != nil || diff != "" {
					t.Fatal(err, diff)
				}
			}
		}
	})
}
