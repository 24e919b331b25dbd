package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/tests/cluster"
)

// oldTimeout is far above what retention and compaction take with the settings of these tests.
const oldTimeout = 60 * time.Second

// produceSealed publishes lines, one a record, and seals them.
func produceSealed(t *testing.T, c *cluster.Cluster, topic, format string, lines ...string) {
	t.Helper()
	if r := c.SQ(t, []byte(strings.Join(lines, "\n")+"\n"), "produce", topic, "-f", "-", "--format", format); r.Code != 0 {
		t.Fatalf("produce: %d %s", r.Code, r.Stderr)
	}
	c.MustSQ(t, "topic", "seal", topic)
}

// filler gives n lines of about 200 bytes.
func filler(n, round int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("%d-%d %s", round, i, strings.Repeat("x", 200)))
	}
	return lines
}

// Old records go by age, by size and by command, of topics that are in the bucket and of those that are not, and stay gone after kill -9. What is only
// freed on the disk is still read. A segment goes by size when what follows it is that much already: of three of 21KiB, the first.
func TestRetention(t *testing.T) {
	eachShape(t, func(t *testing.T, c *cluster.Cluster) {
		const records = 300
		topics := map[string][]string{
			"age":      {"--retention", "3s", "--no-tier"},
			"age-b":    {"--retention", "3s"},
			"size":     {"--retention-bytes", "30KiB", "--no-tier"},
			"size-b":   {"--retention-bytes", "30KiB"},
			"delete":   {"--no-tier"},
			"delete-b": nil,
			"local":    {"--local-retention", "1s"},
		}
		for topic, settings := range topics {
			c.MustSQ(t, append([]string{"topic", "create", topic, "--segment-bytes", "64KiB"}, settings...)...)
			for round := range 3 {
				produceSealed(t, c, topic, "lines", filler(records/3, round)...)
			}
		}
		for _, topic := range []string{"delete", "delete-b"} {
			c.MustSQ(t, "topic", "trim", topic, "--partition", "0", "--before-offset", "150")
		}
		gone := map[string]func(cluster.Partition) bool{
			"age":      func(p cluster.Partition) bool { return p.LogStart > records && p.LocalStart >= p.LogStart },
			"age-b":    func(p cluster.Partition) bool { return p.LogStart > records && p.LocalStart >= p.LogStart },
			"size":     func(p cluster.Partition) bool { return p.LogStart > 100 && p.LogStart < 200 },
			"size-b":   func(p cluster.Partition) bool { return p.LogStart > 100 && p.LogStart < 200 },
			"delete":   func(p cluster.Partition) bool { return p.LogStart == 150 },
			"delete-b": func(p cluster.Partition) bool { return p.LogStart == 150 },
			"local":    func(p cluster.Partition) bool { return p.LogStart == 0 && p.LocalStart > records },
		}
		for topic, is := range gone {
			eventually(t, oldTimeout, func() bool { return is(c.Partition(t, topic)) }, func() any { return topic + fmt.Sprintf(" %+v", c.Partition(t, topic)) })
		}
		count := func(topic string) int {
			return bytes.Count(c.MustSQ(t, "consume", topic, "--from", "earliest", "--until-end"), []byte("\n"))
		}
		want := map[string]int{}
		for topic := range topics {
			want[topic] = count(topic)
		}
		if want["age"] != 0 || want["age-b"] != 0 || want["size"] != 200 || want["size-b"] != 200 || want["delete"] >= 200 || want["local"] != records {
			t.Errorf("records left: %v", want)
		}
		c.KillAll()
		c.RestartAll(t)
		for topic, is := range gone {
			if p := c.Partition(t, topic); !is(p) {
				t.Errorf("after kill -9: %s %+v", topic, p)
			}
			if n := count(topic); n != want[topic] {
				t.Errorf("after kill -9: %s has %d records, had %d", topic, n, want[topic])
			}
		}
	})
}

// A compacted topic has the newest record of each key, at the offset it always had, while it is compacted, after that and after kill -9 at any moment;
// the offline checker finds nothing.
func TestCompaction(t *testing.T) {
	eachShape(t, func(t *testing.T, c *cluster.Cluster) {
		const keys, rounds = 150, 6
		c.MustSQ(t, "topic", "create", "users", "--cleanup", "compact", "--segment-bytes", "64KiB", "--tombstone-age", "2s")
		newest := map[string]string{} // key → value; a tombstone is not there
		for round := range rounds {
			var lines []string
			for key := range keys {
				name := fmt.Sprintf("u%d", key)
				if key < 10 && round == rounds-2 {
					lines = append(lines, fmt.Sprintf(`{"key":%q,"value":null}`, name))
					delete(newest, name)
					continue
				}
				if key < 10 && round == rounds-1 {
					continue
				}
				newest[name] = fmt.Sprintf("%d %s", round, strings.Repeat("x", 300))
				lines = append(lines, fmt.Sprintf(`{"key":%q,"value":%q}`, name, newest[name]))
			}
			produceSealed(t, c, "users", "json", lines...)
			if diff := cmp.Diff(newest, lastOfEach(t, c)); diff != "" {
				t.Fatalf("after round %d (-want +got):\n%s", round, diff)
			}
			c.Kill("broker")
			c.Restart(t, "broker")
		}
		settled := func() bool { return len(all(t, c)) == len(newest) }
		eventually(t, oldTimeout, settled, func() any { return len(all(t, c)) })
		if diff := cmp.Diff(newest, lastOfEach(t, c)); diff != "" {
			t.Errorf("compacted (-want +got):\n%s", diff)
		}
		if p := c.Partition(t, "users"); p.LogStart != 0 || p.TierEnd != 0 {
			t.Errorf("partition %+v", p)
		}
		before := all(t, c)
		c.KillAll()
		c.RestartAll(t)
		if diff := cmp.Diff(before, all(t, c)); diff != "" {
			t.Errorf("after kill -9 (-before +after):\n%s", diff)
		}
		c.StopAll(t)
		dir := filepath.Join(c.Dir, "broker")
		if c.Shape == cluster.AllInOne {
			dir = filepath.Join(c.Dir, "dev", "broker-1")
		}
		c.MustSQ(t, "inspect", "verify", dir)
	})
}

// all gives value by offset and key, of all records that are left.
func all(t *testing.T, c *cluster.Cluster) map[string]string {
	t.Helper()
	out := map[string]string{}
	last := int64(-1)
	for line := range bytes.Lines(c.MustSQ(t, "consume", "users", "--from", "earliest", "--until-end", "-o", "json")) {
		var r struct {
			Offset int64
			Key    string
			Value  *string
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if r.Offset <= last {
			t.Fatalf("offset %d follows %d", r.Offset, last)
		}
		last = r.Offset
		value := "null"
		if r.Value != nil {
			value = *r.Value
		}
		out[fmt.Sprintf("%08d %s", r.Offset, r.Key)] = value
	}
	return out
}

// lastOfEach gives what a reader from the beginning knows of each key in the end.
func lastOfEach(t *testing.T, c *cluster.Cluster) map[string]string {
	t.Helper()
	records := all(t, c)
	at, out := map[string]string{}, map[string]string{}
	for name, value := range records {
		offset, key, _ := strings.Cut(name, " ")
		if offset >= at[key] {
			at[key], out[key] = offset, value
		}
	}
	maps.DeleteFunc(out, func(_, value string) bool { return value == "null" })
	return out
}
