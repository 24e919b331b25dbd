package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// get asks without keeping the connection, which would outlive the server.
func get(ctx context.Context, url string) (status int, body string, err error) {
	return call(ctx, http.MethodGet, url, "")
}

func call(ctx context.Context, method, url, content string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(content))
	if err != nil {
		return 0, "", err
	}
	if content != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	return response.StatusCode, string(out), err
}

// REST calls the gateway's REST API.
func (c *Cluster) REST(t testing.TB, method, path, content string) (status int, body string) {
	t.Helper()
	status, body, err := c.TryREST(t, method, path, content)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return status, body
}

// TryREST is REST where the connection may break.
func (c *Cluster) TryREST(t testing.TB, method, path, content string) (status int, body string, err error) {
	t.Helper()
	return call(t.Context(), method, "http://"+c.RESTAddr+path, content)
}

// RESTAt is TryREST at one of the gateways.
func (c *Cluster) RESTAt(t testing.TB, gateway int, method, path, content string) (status int, body string, err error) {
	t.Helper()
	return call(t.Context(), method, "http://"+c.RESTAddrs[gateway]+path, content)
}

// Get asks for a URL; a server that is not there yet is status 0.
func (c *Cluster) Get(t testing.TB, url string) (status int, body string) {
	t.Helper()
	status, body, err := get(t.Context(), url)
	if err != nil {
		return 0, err.Error()
	}
	return status, body
}

// Partition is a partition as REST tells it; offsets that are 0 are left out there.
type Partition struct {
	LogStart, LocalStart, TierEnd, ExportedEnd, SealedEnd, HighWatermark, End int64

	Epoch    int64
	Leader   int // broker, 0 = none
	Members  []int
	Replicas []Replica // as the leader sees them
	Active   bool
	Error    string
}

// Replica is one of a partition's, as its leader tells.
type Replica struct {
	Broker  int
	UUID    string
	Learner bool
	Match   int64
}

// number is how REST tells 64-bit numbers: as text, left out where 0.
type number int64

// UnmarshalJSON takes both.
func (n *number) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseInt(strings.Trim(string(text), `"`), 10, 64)
	*n = number(value)
	return err
}

// Partition asks for a topic's partition 0.
func (c *Cluster) Partition(t testing.TB, topic string) Partition {
	t.Helper()
	all, err := c.Partitions(t, topic)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// Partitions asks for a topic's partitions, at the first gateway that answers.
func (c *Cluster) Partitions(t testing.TB, topic string) ([]Partition, error) {
	t.Helper()
	var status int
	var body string
	err := errors.New("no gateway")
	for _, addr := range c.RESTAddrs {
		if status, body, err = get(t.Context(), "http://"+addr+"/v1/topics/"+topic); err == nil {
			break
		}
	}
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("describe topic %s: %d %s %w", topic, status, body, err)
	}
	var answer struct {
		PartitionStates []struct {
			LogStart, LocalStart, TierEnd, ExportedEnd, SealedEnd, HighWatermark, End, Epoch, Leader number

			Members  []number
			Replicas []struct {
				Broker, Match number
				Replica       string
				Learner       bool
			}
			Active bool
			Error  string
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return nil, fmt.Errorf("describe topic %s: %w in %s", topic, err, body)
	}
	if len(answer.PartitionStates) == 0 {
		return nil, fmt.Errorf("describe topic %s: no partitions in %s", topic, body)
	}
	out := make([]Partition, len(answer.PartitionStates))
	for i, p := range answer.PartitionStates {
		out[i] = Partition{
			LogStart: int64(p.LogStart), LocalStart: int64(p.LocalStart), TierEnd: int64(p.TierEnd), ExportedEnd: int64(p.ExportedEnd),
			SealedEnd: int64(p.SealedEnd), HighWatermark: int64(p.HighWatermark), End: int64(p.End), Epoch: int64(p.Epoch), Leader: int(p.Leader),
			Active: p.Active, Error: p.Error,
		}
		for _, m := range p.Members {
			out[i].Members = append(out[i].Members, int(m))
		}
		for _, r := range p.Replicas {
			out[i].Replicas = append(out[i].Replicas, Replica{Broker: int(r.Broker), UUID: r.Replica, Learner: r.Learner, Match: int64(r.Match)})
		}
	}
	return out, nil
}

// Broker gives the name of the process of a broker.
func (c *Cluster) Broker(id int) string {
	if names := c.Names("broker"); len(names) > 1 {
		return names[id-1]
	}
	return "broker"
}

// Leader gives the name of the process that leads a topic's partition 0, and of another member's; it waits for them.
func (c *Cluster) Leader(t testing.TB, topic string) (leader, follower string) {
	t.Helper()
	deadline := time.Now().Add(readyTimeout)
	for {
		all, err := c.Partitions(t, topic)
		if err == nil && all[0].Leader > 0 {
			for _, m := range all[0].Members {
				if m != all[0].Leader {
					follower = c.Broker(m)
				}
			}
			return c.Broker(all[0].Leader), follower
		}
		if time.Now().After(deadline) {
			t.Fatalf("topic %s has no leader: %+v %v", topic, all, err)
		}
		pause(t.Context(), readyPoll)
	}
}

// ActiveCoordinator gives the name of the coordinator that is in office; it waits for one.
func (c *Cluster) ActiveCoordinator(t testing.TB) string {
	t.Helper()
	for deadline := time.Now().Add(readyTimeout); time.Now().Before(deadline); pause(t.Context(), readyPoll) {
		for _, name := range c.Names("coordinator") {
			status, body, err := get(t.Context(), "http://"+c.Process(name).Admin+"/metrics")
			if err != nil || status != http.StatusOK {
				continue
			}
			if active, err := sumMetric(body, "sq_coordinator_active_state"); err == nil && active == 1 {
				return name
			}
		}
	}
	t.Fatal("no coordinator is in office")
	return ""
}

// Metric sums a metric over its labels, as a process serves it; 0 where it is not there.
func (c *Cluster) Metric(t testing.TB, process, name string) float64 {
	t.Helper()
	p := c.Process(process)
	status, body, err := get(t.Context(), "http://"+p.Admin+"/metrics")
	if err != nil || status != http.StatusOK {
		t.Fatalf("metrics of %s: %d %v", process, status, err)
	}
	sum, err := sumMetric(body, name)
	if err != nil {
		t.Fatalf("metrics of %s: %v", process, err)
	}
	return sum
}

// sumMetric reads the text format.
func sumMetric(text, name string) (float64, error) {
	sum := 0.0
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || (rest[0] != ' ' && rest[0] != '{') {
			continue
		}
		fields := strings.Fields(rest[strings.LastIndexByte(rest, '}')+1:])
		if len(fields) == 0 {
			return 0, fmt.Errorf("no value in %q", lines.Text())
		}
		value, err := strconv.ParseFloat(fields[0], 64)
		if err != nil {
			return 0, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		sum += value
	}
	return sum, lines.Err()
}
