package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// answerMax bounds what is read of an HTTP answer.
const answerMax = 8 << 20

// skewMax is a difference of clocks that is worth a word; an HTTP date has whole seconds.
const skewMax = 3 * time.Second

func (d *doctor) dataPort(ctx context.Context) {
	ctx, cancel := within(ctx)
	defer cancel()
	if err := d.cfg.Dial(ctx); err != nil {
		d.add("data port", Fail, fmt.Sprintf("%s does not answer: %v", d.cfg.Data, err),
			"Start SQ with 'sq dev' or a gateway with 'sq-gateway', or name its data address with --addr or SQ_ADDR.")
		return
	}
	d.add("data port", OK, d.cfg.Data+" answers", "")
}

// get reads a path of an HTTP port.
func (d *doctor) get(ctx context.Context, addr, path string) (status int, body string, header http.Header, err error) {
	ctx, cancel := within(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return 0, "", nil, fmt.Errorf("get %s from %s: %w", path, addr, err)
	}
	response, err := d.http.Do(request)
	if err != nil {
		return 0, "", nil, err //nolint:wrapcheck // names the address.
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err != nil {
		return 0, "", nil, fmt.Errorf("get %s from %s: %w", path, addr, err)
	}
	return response.StatusCode, string(data), response.Header, nil
}

// rest looks at the gateway's HTTP port: ready, version, clock.
func (d *doctor) rest(ctx context.Context) {
	asked := d.cfg.Now()
	status, body, header, err := d.get(ctx, d.cfg.HTTP, "/readyz")
	switch {
	case err != nil:
		d.add("REST port", Fail, fmt.Sprintf("%s does not answer: %v", d.cfg.HTTP, err), "Name a gateway's REST address with --http or SQ_HTTP.")
		return
	case status != http.StatusOK:
		d.add("REST port", Fail, fmt.Sprintf("the gateway at %s is %s", d.cfg.HTTP, strings.TrimSpace(body)), "It needs etcd: see that it runs and that --etcd names it.")
	default:
		d.add("REST port", OK, d.cfg.HTTP+" is ready", "")
	}
	d.clock(asked, header.Get("Date"))
	var version struct {
		Version string `json:"version"`
	}
	status, body, _, err = d.get(ctx, d.cfg.HTTP, "/version")
	if err != nil || status != http.StatusOK || json.Unmarshal([]byte(body), &version) != nil {
		return
	}
	d.sameVersion("the gateway", version.Version)
}

// clock compares the gateway's clock, which was read between asked and now, with the local one.
func (d *doctor) clock(asked time.Time, date string) {
	there, err := http.ParseTime(date)
	if err != nil {
		return
	}
	skew := time.Duration(0)
	if now := d.cfg.Now(); there.After(now) {
		skew = there.Sub(now)
	} else if end := there.Add(time.Second); end.Before(asked) {
		skew = end.Sub(asked)
	}
	if skew.Abs() < skewMax {
		d.add("clock", OK, "the gateway's clock agrees with this one", "")
		return
	}
	d.add("clock", Warn, fmt.Sprintf("the gateway's clock differs by %v from this one", skew.Round(time.Second)),
		"Set both by NTP: retention and reading from a time go by the brokers' clocks.")
}

func (d *doctor) sameVersion(who, version string) {
	if version == d.cfg.Version {
		d.add("version", OK, fmt.Sprintf("%s runs %s, as this command", who, version), "")
		return
	}
	d.add("version", Warn, fmt.Sprintf("%s runs %s, this command is %s", who, version, d.cfg.Version), "Use the same version of both, the newer one.")
}

// health asks the other services whether they are ready, as far as they can be reached from here.
func (d *doctor) health(ctx context.Context) {
	for _, service := range slices.Sorted(maps.Keys(d.cfg.Health)) {
		addr := d.cfg.Health[service]
		status, body, _, err := d.get(ctx, addr, "/readyz")
		switch {
		case err != nil: // it is elsewhere, or part of 'sq dev': the cluster's view counts
		case status == http.StatusOK:
			d.add(service, OK, addr+" is ready", "")
		default:
			d.add(service, Fail, fmt.Sprintf("%s at %s is %s", service, addr, strings.TrimSpace(body)), readyAdvice(service))
		}
	}
}

func readyAdvice(service string) string {
	switch service {
	case "tierer":
		return "Check --s3-bucket, --s3-endpoint, --s3-region and the credentials, and that the bucket exists."
	case "broker":
		return "Its log says why; 'sq inspect verify' on its data directory finds damage."
	default:
		return "It needs etcd: see that it runs and that --etcd names it."
	}
}
