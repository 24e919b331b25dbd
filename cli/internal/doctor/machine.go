package doctor

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seedqueue/sq/cli/internal/inspect"
	"github.com/seedqueue/sq/libs/config"
)

// openFilesMin is what a broker should be allowed to have open: 1,024 segments, and connections.
const openFilesMin = 8192

// sample is one line of /metrics.
type sample struct {
	addr, name, labels string
	value              float64
}

// scrape reads the metrics that can be reached from here.
func (d *doctor) scrape(ctx context.Context) {
	for _, addr := range d.cfg.Metrics {
		status, body, _, err := d.get(ctx, addr, "/metrics")
		if err == nil && status == http.StatusOK {
			d.metrics = append(d.metrics, samples(addr, body)...)
		}
	}
}

// samples reads the Prometheus text format; a line that is none is skipped.
func samples(addr, body string) []sample {
	var out []sample
	lines := bufio.NewScanner(strings.NewReader(body))
	lines.Buffer(nil, answerMax)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			continue
		}
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			continue
		}
		name, labels, _ := strings.Cut(line[:at], "{")
		out = append(out, sample{addr, name, strings.TrimSuffix(labels, "}"), value})
	}
	return out
}

// each visits the samples of a metric.
func (d *doctor) each(name string, visit func(s sample)) {
	for _, s := range d.metrics {
		if s.name == name {
			visit(s)
		}
	}
}

// of finds the sample of another metric of the same process.
func (d *doctor) of(s sample, name string) (float64, bool) {
	for _, other := range d.metrics {
		if other.name == name && other.addr == s.addr && other.labels == s.labels {
			return other.value, true
		}
	}
	return 0, false
}

func where(s sample) string {
	if s.labels != "" {
		return s.labels + " at " + s.addr
	}
	return "the broker at " + s.addr
}

// disks looks at the room on the brokers' disks.
func (d *doctor) disks() {
	d.each("sq_broker_disk_refuses", func(s sample) {
		total, _ := d.of(s, "sq_broker_disk_bytes")
		free, known := d.of(s, "sq_broker_disk_free_bytes")
		text := fmt.Sprintf("%s has %s of %s free", where(s), bytesText(free), bytesText(total))
		next := "Give the volume more room, delete topics, or shorten retention or local retention with 'sq topic alter'; 'sq topic trim NAME --local' frees what the bucket has."
		switch {
		case s.value != 0:
			d.add("disk", Fail, text+", and refuses records", next)
		case !known:
			d.add("disk", Warn, where(s)+" cannot tell how full its disk is", "See its log.")
		case free < total/5 && free < 20<<30:
			d.add("disk", Warn, text+"; below a tenth, or 10GiB, records are refused", next)
		default:
			d.add("disk", OK, text, "")
		}
	})
}

func bytesText(n float64) string {
	for _, unit := range []struct {
		name string
		size float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f%s", n/unit.size, unit.name)
		}
	}
	return config.Bytes(n).String()
}

// damage looks at what the scrubbers have found.
func (d *doctor) damage() {
	d.each("sq_broker_scrub_faulty_segments", func(s sample) {
		if s.value > 0 {
			d.add("damage", Fail, fmt.Sprintf("%s has found %.0f damaged segments on its disk", where(s), s.value),
				"Its log names them. Check the disk with its own tools, and the directory with 'sq inspect verify'.")
			return
		}
		text := where(s) + " has found no damage"
		if at, ok := d.of(s, "sq_broker_scrub_last_pass_timestamp_seconds"); ok && at > 0 {
			text += fmt.Sprintf("; everything was last read %v ago", d.cfg.Now().Sub(time.Unix(int64(at), 0)).Round(time.Minute))
		}
		d.add("damage", OK, text, "")
	})
}

// openFiles looks at the limit of this process, which is that of a broker started from here.
func (d *doctor) openFiles() {
	switch n := d.cfg.OpenFiles; {
	case n == 0:
	case n < openFilesMin:
		d.add("open files", Warn, fmt.Sprintf("a process started here may have %d files open", n),
			fmt.Sprintf("Raise it to %d or more where brokers run: 'ulimit -n %d', or LimitNOFILE of the service.", openFilesMin, openFilesMin))
	default:
		d.add("open files", OK, fmt.Sprintf("a process started here may have %d", n), "")
	}
}

// dataDir checks a data directory on this machine.
func (d *doctor) dataDir(ctx context.Context) {
	if d.cfg.DataDir == "" {
		return
	}
	reports, err := inspect.Verify(ctx, d.cfg.DataDir, true)
	if err != nil {
		d.add("data directory", Fail, err.Error(), "Name a broker's data directory with --data-dir, or the one of 'sq dev'.")
		return
	}
	for _, r := range reports {
		if r.Clean() {
			d.add("data directory", OK, fmt.Sprintf("%s: %d segments with good headers", r.Path, r.Segments), "")
			continue
		}
		f := r.Findings[0]
		d.add("data directory", Fail, fmt.Sprintf("%s: %d bad places, the first is %s: %s: %s", r.Path, len(r.Findings)+r.More, f.Class, f.File, f.Text),
			fmt.Sprintf("'sq inspect verify %s' lists them.", r.Path))
	}
}
