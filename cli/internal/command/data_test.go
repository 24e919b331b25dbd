package command_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/cli/internal/command"
	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/sdk/go/sqtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a cluster in memory, which acknowledges with durability none.
func server(t *testing.T) (*sqtest.Server, command.Env) {
	t.Helper()
	s := sqtest.Start(t)
	return s, command.Env{Environ: []string{"SQ_ADDR=" + s.Addr()}}
}

// ok runs a command that must succeed and gives its output.
func ok(t *testing.T, env command.Env, args ...string) string {
	t.Helper()
	code, out, errs := run(t, env, args...)
	if code != 0 || errs != "" {
		t.Fatalf("sq %s: code %d, %q", strings.Join(args, " "), code, errs)
	}
	return out
}

func stdin(env command.Env, text string) command.Env {
	env.Stdin = strings.NewReader(text)
	return env
}

func TestProduceAndConsumeOne(t *testing.T) {
	_, env := server(t)
	if out := ok(t, env, "produce", "orders", "hello"); !regexp.MustCompile(`^orders/0@0  none  \d+\.\d ms\n$`).MatchString(out) {
		t.Errorf("%q", out)
	}
	var ack map[string]any
	if err := json.Unmarshal([]byte(ok(t, env, "pub", "orders", "", "--key", "k", "--header", "a=b=c", "-o", "json")), &ack); err != nil || ack["offset"] != 1.0 {
		t.Errorf("%v %v", ack, err)
	}
	if out := ok(t, env, "consume", "orders"); out != "hello\n\n" {
		t.Errorf("%q", out)
	}
	if out := ok(t, env, "sub", "orders", "--from", "1", "--partition", "0", "-o", "{topic}/{partition}@{offset} {key} {headers}"); out != "orders/0@1 k a=b=c\n" {
		t.Errorf("%q", out)
	}
}

// What goes in raw comes out raw, whatever it is; and so does JSON.
func TestBytesComeBack(t *testing.T) {
	for name, in := range map[string]string{
		"empty": "", "a line": "a\n", "no end": "a\nb", "crlf": "a\r\nb\rc\r\n\r\n", "only ends": "\n\n\r\n\n", "binary": "\x00\xff\n\xfe",
		"long": strings.Repeat("x", 1<<19) + "\n" + strings.Repeat("y", 700<<10), "many": strings.Repeat("0123456789 and some more\n", 50_000),
	} {
		t.Run(name, func(t *testing.T) {
			s, env := server(t)
			s.AutoCreate(4)
			file := filepath.Join(t.TempDir(), "in")
			if err := os.WriteFile(file, []byte(in), 0o600); err != nil {
				t.Fatal(err)
			}
			ok(t, env, "produce", "raw", "-f", file, "--format", "raw", "--codec", "lz4")
			if in != "" {
				if out := ok(t, env, "consume", "raw", "--from", "earliest", "--until-end", "--format", "raw"); sha256.Sum256([]byte(out)) != sha256.Sum256([]byte(in)) {
					t.Errorf("%d bytes in, %d out", len(in), len(out))
				}
				ok(t, stdin(env, ok(t, env, "consume", "raw", "-o", "json")), "produce", "copy", "--format", "json")
				if out := ok(t, env, "consume", "copy", "--format", "raw"); sha256.Sum256([]byte(out)) != sha256.Sum256([]byte(in)) {
					t.Errorf("by JSON: %d bytes in, %d out", len(in), len(out))
				}
			}
		})
	}
}

// With several partitions a file without keys goes to one of them, in order; keyed records go by their keys.
func TestPartitions(t *testing.T) {
	s, env := server(t)
	s.CreateTopic("orders", 8)
	var in strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&in, "%d\n", i)
	}
	var done struct {
		Records    int64 `json:"records"`
		Durability string
		Partitions []map[string]int64
	}
	if err := json.Unmarshal([]byte(ok(t, stdin(env, in.String()), "produce", "orders", "-o", "json", "--batch-bytes", "4KiB")), &done); err != nil {
		t.Fatal(err)
	}
	if done.Records != 50_000 || len(done.Partitions) != 1 || done.Partitions[0]["lastOffset"] != 49_999 || done.Durability != "none" {
		t.Errorf("%+v", done)
	}
	if out := ok(t, env, "consume", "orders"); out != in.String() {
		t.Error("the order changed")
	}
	s.CreateTopic("keyed", 8)
	keyed := `{"value":"1","key":"a"}` + "\n" + `{"value":"2","key":"b"}` + "\n" + `{"value":"3","key":"a"}` + "\n" + `{"value":"4"}` + "\n" + `{"value":"5"}`
	ok(t, stdin(env, keyed), "produce", "keyed", "--format", "json")
	at := map[string]string{}
	for line := range strings.Lines(ok(t, env, "consume", "keyed", "-o", "{value} {partition}")) {
		value, partition, _ := strings.Cut(strings.TrimSpace(line), " ")
		at[value] = partition
	}
	if at["1"] != at["3"] || at["4"] != at["5"] || at["1"] == at["2"] {
		t.Errorf("%v", at)
	}
	ok(t, env, "produce", "keyed", "x", "--key", "a", "--partition", "7")
	if out := ok(t, env, "consume", "keyed", "--partition", "7", "--format", "raw"); !strings.Contains(out, "x") {
		t.Errorf("%q", out)
	}
}

// A line that is too long ends the command: what was before it is there, nothing after it.
func TestTooLongALine(t *testing.T) {
	s, env := server(t)
	for _, size := range []int{2 << 20, 9 << 20} { // above the topic's limit, above every limit
		topic := fmt.Sprintf("t%d", size)
		code, out, errs := run(t, stdin(env, "before\n"+strings.Repeat("x", size)+"\nafter\n"), "produce", topic, "--format", "raw")
		if code != 1 || out != "" || !strings.Contains(errs, "before it 1 record stored") {
			t.Errorf("%d: code %d %q %q", size, code, out, errs)
		}
		if !regexp.MustCompile(`1048576|8388608`).MatchString(errs) {
			t.Errorf("the limit is not named: %q", errs)
		}
		if got := ok(t, env, "consume", topic, "--format", "raw"); got != "before\n" {
			t.Errorf("%d: stored %q", size, got)
		}
	}
	s.BatchBytesMax(8 << 20)
	ok(t, stdin(env, strings.Repeat("x", 2<<20)), "produce", "wide")
	code, _, errs := run(t, env, "produce", "orders", strings.Repeat("x", 9<<20))
	if code != 1 || !strings.Contains(errs, "--batch-bytes") {
		t.Errorf("one value: code %d %.300q", code, errs)
	}
}

// What was handed over before a record that is too large is sent and answered, not given up.
func TestTooLongALineBehindManyShortOnes(t *testing.T) {
	_, env := server(t)
	const lines = 5000
	in := strings.Repeat("before\n", lines) + strings.Repeat("x", 2<<20) + "\n" + strings.Repeat("after\n", lines)
	code, out, errs := run(t, stdin(env, in), "produce", "orders", "--linger", "1s")
	if code != 1 || out != "" || !strings.Contains(errs, "before it 5000 records stored, 1 not acknowledged") {
		t.Errorf("code %d %q %q", code, out, errs)
	}
	if got := ok(t, env, "consume", "orders"); got != strings.Repeat("before\n", lines) {
		t.Errorf("%d lines are stored", strings.Count(got, "\n"))
	}
}

func TestBadJSONNamesTheLine(t *testing.T) {
	_, env := server(t)
	code, _, errs := run(t, stdin(env, `{"value":"a"}`+"\n"+`{"colour":1}`+"\n"), "produce", "orders", "--format", "json")
	if code != 1 || !strings.Contains(errs, "line 2") || !strings.Contains(errs, "colour") {
		t.Errorf("code %d %q", code, errs)
	}
}

func TestFirstFailureStopsTheFile(t *testing.T) {
	s, env := server(t)
	s.InjectAfter(sqtest.Publish, 3, sqtest.Refuse(sq.KindDenied, 0), 1000)
	in := strings.Repeat(strings.Repeat("x", 999)+"\n", 20_000)
	code, out, errs := run(t, stdin(env, in), "produce", "orders", "--batch-bytes", "64KiB")
	if code != 1 || out != "" || !strings.Contains(errs, "denied") || !strings.Contains(errs, "SQ_TOKEN") {
		t.Errorf("code %d %q %q", code, out, errs)
	}
	if calls := s.Calls(sqtest.Publish); calls > 100 {
		t.Errorf("%d publishes: it went on", calls)
	}
}

func TestUnknownTopic(t *testing.T) {
	s, env := server(t)
	s.AutoCreate(0)
	for _, args := range [][]string{{"consume", "nothing"}, {"produce", "nothing", "x"}} {
		code, _, errs := run(t, env, args...)
		if code != 1 || !strings.Contains(errs, "nothing") || !strings.Contains(errs, "sq topic create") {
			t.Errorf("%v: code %d %q", args, code, errs)
		}
	}
}

func TestFollowAndCount(t *testing.T) {
	_, env := server(t)
	ok(t, stdin(env, "1\n2\n3\n"), "produce", "orders")
	if out := ok(t, env, "consume", "orders", "-n", "2"); out != "1\n2\n" {
		t.Errorf("%q", out)
	}
	if out := ok(t, env, "consume", "orders", "-n", "9"); out != "1\n2\n3\n" {
		t.Errorf("%q", out)
	}
	// Following shows a record as soon as it is there.
	reader, writer := io.Pipe()
	following := env
	following.Args, following.Stdin, following.Stdout, following.Stderr = []string{"consume", "orders", "-f", "-n", "4"}, strings.NewReader(""), writer, io.Discard
	following.Now = time.Now
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(t.Context(), following)
		_ = writer.Close()
	}()
	got := make([]byte, 6)
	if _, err := io.ReadFull(reader, got); err != nil || string(got) != "1\n2\n3\n" {
		t.Errorf("%q %v", got, err)
	}
	ok(t, env, "produce", "orders", "4")
	rest, err := io.ReadAll(reader)
	if code := <-ended; err != nil || string(rest) != "4\n" || code != 0 {
		t.Errorf("%q %v, code %d", rest, err, code)
	}
}

func TestPositions(t *testing.T) {
	s, env := server(t)
	ok(t, stdin(env, "1\n2\n3\n"), "produce", "orders")
	env.Now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	if out := ok(t, env, "consume", "orders", "--from", "00:00"); out != "" {
		t.Errorf("from the day after tomorrow: %q", out)
	}
	if out := ok(t, env, "consume", "orders", "--from", "2000-01-01T00:00:00Z"); out != "1\n2\n3\n" {
		t.Errorf("from long ago: %q", out)
	}
	s.Trim("orders", 0, 2)
	code, _, errs := run(t, env, "consume", "orders", "--from", "0", "--partition", "0")
	if code != 1 || !strings.Contains(errs, "starts at 2") || !strings.Contains(errs, "--from earliest") {
		t.Errorf("trimmed: code %d %q", code, errs)
	}
	if out := ok(t, env, "consume", "orders"); out != "3\n" {
		t.Errorf("what is left: %q", out)
	}
}

// broken fails as a pipe does whose reader has gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestReaderOfThePipeIsGone(t *testing.T) {
	_, env := server(t)
	ok(t, env, "produce", "orders", "x")
	env.Args, env.Stdin, env.Stdout, env.Stderr, env.Now = []string{"consume", "orders"}, strings.NewReader(""), broken{}, io.Discard, time.Now
	if code := command.Run(t.Context(), env); code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestProgressOnATerminalOnly(t *testing.T) {
	_, env := server(t)
	in := strings.Repeat(strings.Repeat("0123456789", 100)+"\n", 4_000)
	tick := time.Now()
	env.Now = func() time.Time { tick = tick.Add(time.Second); return tick }
	if _, _, errs := run(t, stdin(env, in), "produce", "orders"); errs != "" {
		t.Errorf("in a pipe: %q", errs)
	}
	env.StderrTerminal = true
	if _, out, errs := run(t, stdin(env, in), "produce", "orders"); !strings.Contains(errs, "records") || !strings.HasSuffix(errs, "\r\x1b[K") || strings.Contains(out, "\r") {
		t.Errorf("on a terminal: %.200q %q", errs, out)
	}
	env.StdinTerminal = true
	if _, _, errs := run(t, stdin(env, "a\n"), "produce", "orders"); !strings.Contains(errs, "Ctrl-D") {
		t.Errorf("from a keyboard: %q", errs)
	}
}

func TestBench(t *testing.T) {
	s, env := server(t)
	var produced, consumed map[string]any
	out := ok(t, env, "bench", "produce", "--topic", "b", "--duration", "100ms", "--record-size", "10", "--batch-bytes", "1000", "--clients", "2", "-o", "json")
	if err := json.Unmarshal([]byte(out), &produced); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"records_per_second", "bytes_per_second", "records", "seconds"} {
		if n, _ := produced[key].(float64); n <= 0 {
			t.Errorf("%s: %v", key, produced[key])
		}
	}
	latency, _ := produced["latency_ms"].(map[string]any)
	if len(latency) != 5 || produced["durability"] != "none" || produced["errors"] != 0.0 {
		t.Errorf("%v", produced)
	}
	out = ok(t, env, "bench", "consume", "--topic", "b", "-o", "json")
	if err := json.Unmarshal([]byte(out), &consumed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(produced["records"].(float64)+2, consumed["records"]); diff != "" { // and the first record of each client
		t.Error(diff)
	}
	if out := ok(t, env, "bench", "produce", "--topic", "b", "--duration", "20ms"); !strings.Contains(out, "records/s") || !strings.Contains(out, "p99.9") {
		t.Errorf("%q", out)
	}
	s.InjectAfter(sqtest.Publish, 1, sqtest.Refuse(sq.KindDenied, 0), 1<<30)
	if code, _, errs := run(t, env, "bench", "produce", "--topic", "b", "--duration", "20ms"); code != 1 || !strings.Contains(errs, "denied") {
		t.Errorf("code %d %q", code, errs)
	}
}

// Anything that is read line by line and joined is what it was.
func TestRandomFilesComeBack(t *testing.T) {
	_, env := server(t)
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test's own dice.
	for i := range 20 {
		in := make([]byte, random.IntN(100_000)+1)
		for j := range in {
			in[j] = "\n\r\x00 abc\xff"[random.IntN(8)]
		}
		topic := fmt.Sprintf("r%d", i)
		ok(t, stdin(env, string(in)), "produce", topic, "--format", "raw", "--batch-bytes", "1KiB")
		if out := ok(t, env, "consume", topic, "--format", "raw"); !bytes.Equal([]byte(out), in) {
			t.Fatalf("run %d: %d bytes in, %d out", i, len(in), len(out))
		}
	}
}
