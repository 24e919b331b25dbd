package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
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

	Active bool
	Error  string
}

// Partition asks for a topic's partition 0.
func (c *Cluster) Partition(t testing.TB, topic string) Partition {
	t.Helper()
	status, body := c.REST(t, http.MethodGet, "/v1/topics/"+topic, "")
	if status != http.StatusOK {
		t.Fatalf("describe topic %s: %d %s", topic, status, body)
	}
	var answer struct {
		PartitionStates []struct {
			LogStart, LocalStart, TierEnd, ExportedEnd, SealedEnd, HighWatermark, End string

			Active bool
			Error  string
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("describe topic %s: %v in %s", topic, err, body)
	}
	if len(answer.PartitionStates) == 0 {
		t.Fatalf("describe topic %s: no partitions in %s", topic, body)
	}
	p := answer.PartitionStates[0]
	number := func(s string) int64 {
		n, _ := strconv.ParseInt(s, 10, 64) // "" is 0
		return n
	}
	return Partition{
		LogStart: number(p.LogStart), LocalStart: number(p.LocalStart), TierEnd: number(p.TierEnd), ExportedEnd: number(p.ExportedEnd),
		SealedEnd: number(p.SealedEnd), HighWatermark: number(p.HighWatermark), End: number(p.End), Active: p.Active, Error: p.Error,
	}
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
