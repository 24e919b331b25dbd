package cluster

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFaults(t *testing.T) {
	const log = `time=x level=INFO msg=fine err="panic averted"
time=x level=ERROR msg="lost a segment" topic=a
time=x level=ERROR msg="expected here"
{"level":"ERROR","msg":"json"}
panic: runtime error: index out of range
goroutine 1 [running]:
2030 http: panic serving 127.0.0.1:1: boom
fatal error: all goroutines are asleep`
	got := faults(log, true, []*regexp.Regexp{regexp.MustCompile("expected here")})
	want := []string{
		`time=x level=ERROR msg="lost a segment" topic=a`, `{"level":"ERROR","msg":"json"}`, "panic: runtime error: index out of range",
		"goroutine 1 [running]:", "2030 http: panic serving 127.0.0.1:1: boom", "fatal error: all goroutines are asleep",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := faults(log, false, nil); len(got) != 4 {
		t.Errorf("of another's log: %q", got)
	}
}

func TestSumMetric(t *testing.T) {
	const text = `# HELP sq_reads_total x
sq_reads_total{a="}"} 3
sq_reads_total{a="y"} 4.5
sq_reads_total_more 100
`
	if got, err := sumMetric(text, "sq_reads_total"); got != 7.5 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := sumMetric(text, "sq_absent"); got != 0 || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
