package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/cluster"
)

// rates publishes to topics with one and with three replicas in turns.
func rates(t *testing.T, programs *cluster.Programs) {
	seconds := number(t, "SECONDS", 5)
	c, _ := start(t, programs)
	for _, replicas := range []string{"1", "3"} {
		c.MustSQ(t, "topic", "create", "rates-"+replicas, "--replication-factor", replicas, "--no-tier")
	}
	loads := []struct {
		name string
		args []string
	}{
		{"256 KiB batches of 100 B, 5 in flight", []string{"--record-size", "100", "--batch-bytes", "262144", "--in-flight", "5", "--clients", "1"}},
		{"one record a publish, 1 in flight", []string{"--record-size", "100", "--batch-bytes", "1", "--in-flight", "1", "--clients", "1"}},
	}
	for range 2 {
		for _, size := range []string{"256k", "4k"} {
			t.Log(fio(t, c.Dir, size, seconds))
		}
		for _, l := range loads {
			for _, replicas := range []string{"1", "3"} {
				args := append([]string{"bench", "produce", "--topic", "rates-" + replicas, "--duration", fmt.Sprintf("%ds", seconds), "-o", "json"}, l.args...)
				var got struct {
					BytesPerSecond   float64                               `json:"bytes_per_second"`
					RecordsPerSecond float64                               `json:"records_per_second"`
					Latency          struct{ P50, P99, P999, Max float64 } `json:"latency_ms"`
					Durability       string
					Errors           int
				}
				if err := json.Unmarshal(c.MustSQ(t, args...), &got); err != nil {
					t.Fatal(err)
				}
				t.Logf("%s, replicas %s: %.1f MB/s, %.0f records/s, ms p50 %.3f p99 %.3f p99.9 %.3f max %.3f, %s, %d errors", l.name, replicas,
					got.BytesPerSecond/1e6, got.RecordsPerSecond, got.Latency.P50, got.Latency.P99, got.Latency.P999, got.Latency.Max, got.Durability, got.Errors)
			}
		}
	}
}

// fio says what the disk does by itself: one writer that never rewrites a block, with an fdatasync behind each write.
func fio(t *testing.T, dir, size string, seconds int) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "fio", "--name=fio", "--directory="+dir, "--rw=write", "--bs="+size, "--size=32g", "--fdatasync=1",
		"--runtime="+strconv.Itoa(seconds), "--output-format=json").Output()
	if err != nil {
		return "fio " + size + ": " + err.Error()
	}
	files, _ := filepath.Glob(filepath.Join(dir, "fio.*"))
	for _, file := range files {
		_ = os.Remove(file)
	}
	var got struct {
		Jobs []struct {
			Write struct {
				Rate float64 `json:"bw_bytes"`
			}
			Sync struct {
				Lat struct{ Percentile map[string]float64 } `json:"lat_ns"`
			}
		}
	}
	if err := json.Unmarshal(out[strings.IndexByte(string(out), '{'):], &got); err != nil {
		t.Fatal(err)
	}
	job := got.Jobs[0]
	return fmt.Sprintf("fio %s write + fdatasync: %.1f MB/s, a third is %.1f; fdatasync ms p50 %.3f p99 %.3f", size, job.Write.Rate/1e6, job.Write.Rate/3e6,
		job.Sync.Lat.Percentile["50.000000"]/1e6, job.Sync.Lat.Percentile["99.000000"]/1e6)
}

// settle bounds the wait until nothing is written to etcd any more.
const settle = 5 * time.Minute

// idle lets partitions be.
func idle(t *testing.T, programs *cluster.Programs) {
	partitions, seconds := number(t, "PARTITIONS", 10_000), number(t, "SECONDS", 30)
	c, network := start(t, programs)
	names := append(append([]string{"etcd"}, c.Names("broker")...), append(c.Names("coordinator"), c.Names("gateway")...)...)
	look := func() map[string]usage {
		out := map[string]usage{}
		for _, name := range names {
			out[name] = usageOf(t, c, name, network != nil)
		}
		return out
	}
	compare := func(what string) {
		puts := etcdPuts(t, c)
		before, began := look(), time.Now()
		time.Sleep(time.Duration(seconds) * time.Second)
		after, took := look(), time.Since(began).Seconds()
		t.Logf("%s: etcd writes %.1f/s", what, (etcdPuts(t, c)-puts)/took)
		for _, name := range names {
			t.Logf("%s: %-14s %5.2f %% of a core, memory %d MiB, network %.0f B/s in, %.0f B/s out", what, name,
				100*(after[name].cpu-before[name].cpu)/took, after[name].memory>>20, (after[name].in-before[name].in)/took, (after[name].out-before[name].out)/took)
		}
	}
	compare("no partitions")
	began := time.Now()
	c.MustSQ(t, "topic", "create", "idle", "--partitions", strconv.Itoa(partitions), "--replication-factor", "3", "--no-tier")
	t.Logf("%d partitions with 3 replicas were made and led after %v", partitions, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	for rate := 1e9; rate > 2 && time.Since(began) < settle; { // leaders are spread, and that is not what idle partitions cost
		puts, looked := etcdPuts(t, c), time.Now()
		time.Sleep(5 * time.Second)
		rate = (etcdPuts(t, c) - puts) / time.Since(looked).Seconds()
	}
	t.Logf("at rest after %v more", time.Since(began).Round(time.Second))
	compare(fmt.Sprintf("%d partitions", partitions))
}

// usage of a process since its start.
type usage struct {
	cpu     float64 // seconds
	memory  int     // bytes
	in, out float64 // bytes of its network
}

func usageOf(t *testing.T, c *cluster.Cluster, name string, network bool) usage {
	t.Helper()
	pid := c.Process(name).PID()
	read := func(file string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, stat, _ := strings.Cut(read("stat"), ") ")
	fields := strings.Fields(stat) // from the third on
	float := func(s string) float64 {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	const ticks = 100 // a second, on every Linux that there is
	u := usage{cpu: (float(fields[11]) + float(fields[12])) / ticks, memory: int(float(fields[21])) * os.Getpagesize()}
	if !network {
		return u
	}
	for line := range strings.SplitSeq(read("net/dev"), "\n") {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "eth0:"); ok {
			counts := strings.Fields(rest)
			u.in, u.out = float(counts[0]), float(counts[8])
		}
	}
	return u
}

// etcdPuts counts etcd's writes.
func etcdPuts(t *testing.T, c *cluster.Cluster) float64 {
	t.Helper()
	status, body := c.Get(t, strings.Replace(c.Process("etcd").Ready, "/health", "/metrics", 1))
	if status != 200 {
		t.Fatalf("metrics of etcd: %d %s", status, body)
	}
	sum := 0.0
	for line := range strings.SplitSeq(body, "\n") {
		if rest, ok := strings.CutPrefix(line, "etcd_mvcc_put_total "); ok {
			n, _ := strconv.ParseFloat(rest, 64)
			sum += n
		}
	}
	return sum
}
