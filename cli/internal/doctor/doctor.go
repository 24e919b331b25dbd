package doctor

import (
	"context"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
)

// Status is what a check came to.
type Status string

// The statuses, from harmless to worst.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Result is one check.
type Result struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Text   string `json:"text"`
	// Next says what to do; empty where it is ok.
	Next string `json:"next,omitempty"`
}

// Config says where to look.
type Config struct {
	Data, API, HTTP string            // addresses of a gateway
	Health          map[string]string // service → address of its HTTP port
	Metrics         []string          // addresses that may have /metrics
	DataDir         string            // of a broker on this machine; empty = none
	Version         string            // of this command
	OpenFiles       uint64            // that this process may have open; 0 = not known
	Now             func() time.Time
	// Dial opens the data port and closes it again.
	Dial func(ctx context.Context) error
	// Control gives a connection to the control API.
	Control grpc.ClientConnInterface
}

// callTimeout bounds a call.
const callTimeout = 5 * time.Second

// doctor is a Run at work.
type doctor struct {
	cfg     Config
	http    *http.Client
	results []Result
	metrics []sample
}

// Run does all checks.
func Run(ctx context.Context, cfg Config) []Result {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: callTimeout}).DialContext}
	d := &doctor{cfg: cfg, http: &http.Client{Transport: transport, Timeout: callTimeout}}
	d.dataPort(ctx)
	reached := d.cluster(ctx)
	d.rest(ctx)
	d.health(ctx)
	d.scrape(ctx)
	d.disks()
	d.damage()
	d.openFiles()
	if reached {
		d.topics(ctx)
	}
	d.dataDir(ctx)
	return d.results
}

// Worst gives the worst status.
func Worst(results []Result) Status {
	worst := OK
	for _, r := range results {
		if r.Status == Fail || r.Status == Warn && worst == OK {
			worst = r.Status
		}
	}
	return worst
}

func (d *doctor) add(check string, status Status, text, next string) {
	d.results = append(d.results, Result{check, status, text, next})
}

// within gives a call its time.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}
