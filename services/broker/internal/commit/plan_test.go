package commit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlan(t *testing.T) {
	limits, err := Limits{RingBytes: 1 << 20, SmallBytes: 1000, GroupBytes: 2000}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	small := func(n int) []ask {
		var out []ask
		for range n {
			out = append(out, ask{bytes: 300})
		}
		return out
	}
	busy, large := ask{bytes: 300, busy: true}, ask{bytes: 1000}
	for _, c := range []struct {
		name string
		disk disk
		asks []ask
		want string
	}{
		{"a lone file is synced", disk{room: 1 << 19}, small(1), "direct"},
		{"a lone one beside a sync shares the journal's", disk{room: 1 << 19, syncing: 1}, small(1), "redo"},
		{"several go to the journal", disk{room: 1 << 19}, small(3), "redo redo redo"},
		{"large ones sync their files", disk{room: 1 << 19}, []ask{large, {bytes: 300}, {bytes: 999}}, "direct redo redo"},
		{"a lone small one beside a large one", disk{room: 1 << 19}, []ask{large, {bytes: 300}}, "direct redo"},
		{"a log whose sync is in flight waits for it", disk{room: 1 << 19, syncing: 1}, []ask{busy, {bytes: 300}}, "later redo"},
		{"what is not known is left to the file", disk{room: 1 << 19}, []ask{{}, {bytes: 1}, {bytes: 1}}, "direct redo redo"},
		{"no ring", disk{}, small(3), "direct direct direct"},
		{"never", disk{mode: Never, room: 1 << 19}, small(2), "direct direct"},
		{"never waits for a file all the same", disk{mode: Never, room: 1 << 19}, []ask{busy, {bytes: 1}}, "later direct"},
		{"always takes the lone one too", disk{mode: Always, room: 1 << 19}, small(1), "redo"},
		{"always takes large ones up to a group", disk{mode: Always, room: 1 << 19}, []ask{{bytes: 2000}, {bytes: 2001}}, "redo direct"},
		{"a full group leaves the rest to the next", disk{room: 1 << 19}, small(8), "redo redo redo redo redo redo later later"},
		{"a full ring makes nobody wait", disk{room: 700}, small(3), "redo direct direct"},
		{"no room at all", disk{room: -5}, small(2), "direct direct"},
	} {
		c.disk.limits = limits
		var got []string
		for _, p := range plan(c.disk, c.asks, 100) {
			got = append(got, [...]string{"later", "direct", "redo"}[p])
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range []Mode{Auto, Always, Never} {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%s is read as %s, %v", m, got, err)
		}
	}
	if _, err := ParseMode("sometimes"); err == nil || !strings.Contains(err.Error(), "auto, always or never") {
		t.Errorf("sometimes: %v", err)
	}
}
