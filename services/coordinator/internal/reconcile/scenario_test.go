package reconcile_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/election"
	"github.com/seedqueue/sq/services/coordinator/internal/operator"
	"github.com/seedqueue/sq/services/coordinator/internal/reconcile"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

//nolint:gochecknoglobals // a test flag.
var rewrite = flag.Bool("rewrite", false, "write what the scenarios answer into testdata")

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// TestScenarios plays testdata/*.txt: a line that begins with "> " is a command, the lines behind it are its answer. Two coordinators, a and b,
// share one store; both believe in their term until they are told otherwise by a failed guard.
//
//	elect X                      X takes the office, whoever has it
//	broker N up [zone=Z]         a new incarnation of broker N claims and registers
//	broker N down                its live key goes, as by the end of its lease
//	create T [partitions=N] [rf=N] [id=R] [dry]
//	delete T
//	activate T/N                 its leader activates at offset 0
//	fail PREFIX [ambiguous|crash] COUNT   the store fails the next COUNT transactions whose first key begins so
//	reconcile X                  one round, on a fresh view
//	stale X                      X keeps the view it has for its next round
//	advance D
//	show                         all topics, names and assignments
//	brokers                      all brokers
//
// What brokers say and operators ask for: say and operate.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, want)
			if *rewrite {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" && !*rewrite {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func play(t *testing.T, script []byte) []byte {
	w := newWorld(t)
	var out bytes.Buffer
	lines := bufio.NewScanner(bytes.NewReader(script))
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(&out, line)
			answer, err := w.do(strings.Fields(line[2:]))
			if err != nil {
				answer = fmt.Sprintf("%v: %v\n", fault.KindOf(err), err)
			}
			out.WriteString(w.names(answer))
		case strings.HasPrefix(line, "#"), line == "":
			fmt.Fprintln(&out, line)
		}
	}
	return out.Bytes()
}

// world is a store with brokers and two coordinators.
type world struct {
	t       *testing.T
	ctx     context.Context
	store   *memstore.Store
	clock   *clock.Manual
	uuids   uint64
	coords  map[string]*coordinator
	brokers map[partition.NodeID]*topology.Registration
	labels  map[string]string // of UUIDs, in the order of their making
	book    *reports.Book
	told    *brokers
}

type coordinator struct {
	*office

	catalog  *catalog.Catalog
	operator *operator.Operator
	loop     *reconcile.Loop
	views    *views
}

// office is an election without its own will.
type office struct {
	store    topology.Store
	revision int64 // 0 = standing by
}

func (o *office) Guard() (topology.Compare, error) {
	if o.revision == 0 {
		return topology.Compare{}, election.ErrStandby
	}
	return topology.Compare{Key: topology.CoordinatorKey, Target: topology.CompareCreateRevision, Want: o.revision}, nil
}

// Doubt looks whether the office is still held.
func (o *office) Doubt() {
	if kv, _, _, err := o.store.Get(context.Background(), topology.CoordinatorKey); err == nil && kv.CreateRevision != o.revision {
		o.revision = 0
	}
}

// views reads the store anew at each look, unless it is frozen.
type views struct {
	*topology.Follower

	frozen *topology.View
	still  bool // does not even read where it is waited for
}

func (v *views) View() *topology.View {
	if v.frozen != nil {
		return v.frozen
	}
	return v.Follower.View()
}

// WaitFor reads instead of waiting.
func (v *views) WaitFor(ctx context.Context, _ func(*topology.View) bool) (*topology.View, error) {
	if v.still {
		return v.View(), nil
	}
	err := v.Refresh(ctx)
	return v.View(), err
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, ctx: t.Context(), clock: clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		coords: map[string]*coordinator{}, brokers: map[partition.NodeID]*topology.Registration{}, labels: map[string]string{},
		book: reports.NewBook(),
	}
	w.told = &brokers{
		w: w, positions: map[survey.Replica]survey.Position{}, caught: map[survey.Replica]bool{}, mute: map[partition.NodeID]bool{},
	}
	w.store = memstore.New(w.clock)
	t.Cleanup(func() { _ = w.store.Close() })
	log := slog.New(slog.DiscardHandler)
	for _, name := range []string{"a", "b"} {
		metrics, err := reconcile.NewMetrics(prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		o := &office{store: w.store}
		v := &views{Follower: topology.NewFollower(w.store, log, w.clock)}
		c := catalog.New(catalog.Config{
			Store: w.store, Views: v, Office: o, Clock: w.clock, NewUUID: w.newUUID, Log: log, Reports: w.book, ReplicasDefault: 3,
		})
		w.coords[name] = &coordinator{office: o, catalog: c, views: v}
		w.coords[name].operator = operator.New(operator.Config{
			Store: w.store, Views: v, Office: o, Catalog: c, Reports: w.book, Survey: w.told, Clock: w.clock, NewUUID: w.newUUID, Log: log,
		})
		w.coords[name].loop = reconcile.New(reconcile.Config{
			Store: w.store, Views: v, Office: o, Clock: w.clock, Log: log, Metrics: metrics, Reports: w.book, Survey: w.told,
			Planner: &reconcile.Planner{
				Creating: c.Creating, Grace: 10 * time.Minute, MovesAtOnce: 2, DeadAfter: time.Hour, NewUUID: w.newUUID,
			},
		})
	}
	return w
}

func (w *world) newUUID() partition.UUID {
	w.uuids++
	id := partition.UUIDOf(0, w.uuids)
	w.labels[id.String()] = fmt.Sprintf("<%d>", w.uuids)
	return id
}

// names makes UUIDs readable.
func (w *world) names(text string) string {
	for id, label := range w.labels {
		text = strings.ReplaceAll(text, id, label)
	}
	return text
}

func (w *world) do(words []string) (string, error) {
	switch words[0] {
	case "elect":
		return "", w.elect(words[1])
	case "broker":
		return "", w.broker(words)
	case "create":
		return w.create(words)
	case "delete":
		return "", w.active().catalog.DeleteTopic(w.ctx, topology.Name{Namespace: topology.DefaultNamespace, Topic: words[1]}, partition.UUID{})
	case "activate":
		return "", w.activate(words[1])
	case "fail":
		return "", w.fail(words)
	case "stale":
		c := w.coords[words[1]]
		c.views.frozen = nil
		if err := c.views.Refresh(w.ctx); err != nil {
			return "", err
		}
		c.views.frozen = c.views.View()
		return "", nil
	case "reconcile":
		c := w.coords[words[1]]
		if c.views.frozen == nil {
			if err := c.views.Refresh(w.ctx); err != nil {
				return "", err
			}
		}
		defer func() { c.views.frozen = nil }()
		return "", c.loop.Round(w.ctx)
	case "advance":
		d, err := time.ParseDuration(words[1])
		w.clock.Advance(d)
		return "", err
	case "show":
		return w.show()
	case "brokers":
		return w.showBrokers(), nil
	case "report", "position", "mute", "speak", "caught":
		w.active()
		return "", w.say(words)
	case "drain", "undrain", "decommission", "recommission", "canstop", "alter", "reassign", "transfer", "recover":
		return w.operate(words)
	default:
		return "", fmt.Errorf("unknown command %q", words[0])
	}
}

// active is the coordinator that believes to be, a before b.
func (w *world) active() *coordinator {
	for _, name := range []string{"a", "b"} {
		if c := w.coords[name]; c.revision != 0 {
			if err := c.views.Refresh(w.ctx); err != nil {
				w.t.Fatal(err)
			}
			return c
		}
	}
	w.t.Fatal("no coordinator is elected")
	return nil
}

func (w *world) elect(name string) error {
	if _, err := w.store.Txn(w.ctx, nil, []topology.Op{{Key: topology.CoordinatorKey, Delete: true}}); err != nil {
		return err
	}
	result, err := w.store.Txn(w.ctx, nil, []topology.Op{{Key: topology.CoordinatorKey, Value: []byte(`{"v":1,"id":"` + name + `"}`)}})
	if err != nil {
		return err
	}
	c := w.coords[name]
	c.revision = result.Revision
	if err := c.catalog.EnsureDefault(w.ctx); err != nil {
		return err
	}
	return c.views.Refresh(w.ctx)
}

func (w *world) broker(words []string) error {
	n, err := strconv.ParseUint(words[1], 10, 64)
	if err != nil {
		return err
	}
	id := partition.NodeID(n)
	if words[2] == "down" {
		return w.brokers[id].Close(w.ctx)
	}
	options := options(words[3:])
	claim, err := topology.ClaimBroker(w.ctx, w.store, id, options["zone"], nil)
	if err != nil {
		return err
	}
	if _, claimed := options["claimed"]; claimed {
		return nil
	}
	w.brokers[id], err = topology.Register(w.ctx, w.store, topology.RegisterParams{
		Key: topology.BrokerLiveKey(id), TTL: 24 * 365 * time.Hour, Guards: []topology.Compare{claim.Guard},
		Live: topology.Live{ID: words[1], Node: id, Incarnation: claim.Incarnation},
	})
	return err
}

func (w *world) create(words []string) (string, error) {
	o := options(words[2:])
	_, dry := o["dry"]
	topic := topology.Topic{Name: words[1], Partitions: number(o["partitions"]), ReplicationFactor: number(o["rf"])}
	made, err := w.active().catalog.CreateTopic(w.ctx, catalog.CreateTopic{Topic: topic, RequestID: o["id"], ValidateOnly: dry})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s partitions=%d rf=%d\n", made.Value.ID, made.Value.Partitions, made.Value.ReplicationFactor), nil
}

func (w *world) activate(what string) error {
	w.active()
	id, a, err := w.named(what)
	if err != nil {
		return err
	}
	value, err := topology.Encode(a.Activate(0))
	if err != nil {
		return err
	}
	_, err = w.store.Txn(w.ctx, nil, []topology.Op{{Key: topology.PartitionKey(id), Value: value}})
	return err
}

func (w *world) fail(words []string) error {
	how := memstore.Unavailable
	if words[2] == "ambiguous" {
		how = memstore.Ambiguous
	}
	left, err := strconv.Atoi(words[3])
	w.store.SetFaults(func(call memstore.Call) memstore.Fault {
		if call.Method != memstore.Txn || !strings.HasPrefix(call.Key, words[1]) || left == 0 {
			return memstore.None
		}
		left--
		return how
	})
	return err
}

func options(words []string) map[string]string {
	o := map[string]string{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		o[key] = value
	}
	return o
}

func number(text string) uint32 {
	n, _ := strconv.ParseUint(text, 10, 32)
	return uint32(n)
}
