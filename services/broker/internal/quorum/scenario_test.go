package quorum

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the scenario files with what the code does now")

// TestScenarios runs testdata/*.txt. A block is a command, a line "----", and what it prints up to an empty line. Commands:
//
//	nodes N [written] [bytes=N]   N replicas; written = count by the written mark
//	nominate L members=1,2,3      the coordinator writes the next epoch
//	learn N                       N hears what the register says
//	journal N | write N | sync N  N's disk does the oldest waiting promise | the oldest append or sync | all appends and syncs
//	deliver A B [N] | drop A B | copy A B   the oldest message from A to B arrives | is lost | arrives and stays
//	cas N won|lost|unknown|applied          N's CAS wins | is refused | times out undone | times out done
//	reread N                      the register answers N
//	propose N a b c | seal N | tick N D | full N | suspect N
//	crash N | power N | start N   kill -9 | power loss | restart
//	run                           everything that waits happens, in a fixed order
//	state                         what every replica holds
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { scenario(t, file) })
	}
}

func scenario(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	var w *world
	for _, block := range strings.Split(strings.TrimSpace(string(data)), "\n\n") {
		var command string
		for _, line := range strings.Split(block, "\n") {
			if line == "----" {
				break
			}
			if got.WriteString(line + "\n"); !strings.HasPrefix(line, "#") {
				command = line
			}
		}
		if command != "" {
			w = execute(t, w, strings.Fields(command))
			got.WriteString("----\n" + w.out.String())
			w.out.Reset()
		}
		got.WriteString("\n")
	}
	text := strings.TrimSpace(got.String()) + "\n"
	if *rewrite {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(data), text); diff != "" {
		t.Errorf("%s (-file +now):\n%s", file, diff)
	}
}

func execute(t *testing.T, w *world, words []string) *world {
	t.Helper()
	arg := func(i int) int {
		n, err := strconv.Atoi(words[i])
		if err != nil {
			t.Fatalf("%v: %v", words, err)
		}
		return n
	}
	if words[0] == "nodes" {
		return makeNodes(arg(1), words[2:])
	}
	switch words[0] {
	case "run":
		w.run()
	case "state":
		w.printState()
	case "nominate":
		var set []partition.Member
		for id := range strings.SplitSeq(strings.TrimPrefix(words[2], "members="), ",") {
			n, _ := strconv.Atoi(id)
			set = append(set, member(n))
		}
		w.nominate(arg(1), set)
	case "deliver", "drop", "copy":
		times := 1
		if len(words) > 3 {
			times = arg(3)
		}
		for range times {
			if !w.deliver(arg(1), arg(2), words[0] == "drop", words[0] == "copy") {
				w.printf("no message\n")
			}
		}
	default:
		w.executeAt(t, w.nodes[arg(1)], words)
	}
	return w
}

func makeNodes(n int, options []string) *world {
	return newWorld(n, func(c *Config) {
		for _, o := range options {
			switch {
			case o == "written":
				c.Counting = CountWritten
			case strings.HasPrefix(o, "bytes="):
				c.Cut.Bytes, _ = strconv.ParseInt(strings.TrimPrefix(o, "bytes="), 10, 64)
			}
		}
	})
}

func (w *world) executeAt(t *testing.T, n *node, words []string) {
	t.Helper()
	did := true
	switch words[0] {
	case "learn":
		w.learn(n, false)
	case "reread":
		n.reread = false
		w.learn(n, true)
	case "journal":
		did = w.disk(n, true)
	case "write":
		did = w.disk(n, false)
	case "sync":
		for w.disk(n, false) {
		}
	case "cas":
		w.cas(n, words[2])
	case "propose":
		w.propose(n, words[2:])
	case "seal":
		w.step(n, SealRequested{Time: w.clock})
	case "tick":
		d, err := time.ParseDuration(words[2])
		if err != nil {
			t.Fatal(err)
		}
		n.elapsed += d
		w.clock += d.Microseconds()
		w.step(n, Tick{Elapsed: n.elapsed, Time: w.clock})
	case "full":
		for i, e := range n.io {
			if a, ok := e.(AppendLog); ok {
				n.io = n.io[:i]
				n.log = n.log[:len(n.log)-len(a.Entries)]
				w.step(n, Unwritten{Generation: a.Generation, From: partition.Offset(a.Entries[0].BaseOffset)})
				break
			}
		}
	case "suspect":
		n.state.suspect = true
	case "crash", "power":
		w.crash(n, words[0] == "power")
	case "start":
		w.start(n, nil)
	default:
		t.Fatalf("unknown command %v", words)
	}
	if !did {
		w.printf("nothing waits\n")
	}
}

func (w *world) cas(n *node, how string) {
	epoch := n.cas.Epoch
	won := false
	switch how {
	case "won":
		won = w.swap(n)
	case "applied":
		w.swap(n)
	}
	n.cas = nil
	w.step(n, Activation{Epoch: epoch, Won: won})
}

func (w *world) printState() {
	w.printf("register: epoch %d, leader %d, %s\n", w.register.Epoch, w.register.Leader.Broker, w.register.Status)
	for id := 1; id <= len(w.nodes); id++ {
		n := w.nodes[id]
		if !n.up {
			w.printf("%d: down\n", id)
			continue
		}
		r := n.state.Report()
		w.printf("%d: %s of %d%s, promised %d, hw %d, durable %d: %s\n", id, r.Role, r.Epoch, admits(n.state), r.Promised, r.HighWatermark, r.Durable, labels(n.log))
	}
}

// admits says when a leader does not.
func admits(s *State) string {
	if s.Leads() && !s.CanPropose() {
		return " (admits nothing)"
	}
	return ""
}
