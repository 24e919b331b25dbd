package inspect

import (
	"context"
	"fmt"
	"strings"

	"github.com/seedqueue/sq/services/broker/datadir"
)

// verified is the JSON of a verify.
type verified struct {
	Clean   bool              `json:"clean"`
	Reports []*datadir.Report `json:"reports"`
}

// Verify checks what lies at a path, which may be a directory of `sq dev`.
func Verify(ctx context.Context, path string, quick bool) ([]*datadir.Report, error) {
	var reports []*datadir.Report
	for _, dir := range Brokers(path) {
		report, err := verify(ctx, dir, quick)
		if err != nil {
			return nil, err
		}
		reports = append(reports, report)
	}
	return reports, nil
}

func verify(ctx context.Context, path string, quick bool) (*datadir.Report, error) {
	place, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = place.Close() }()
	return datadir.Verify(ctx, place, place.Path, datadir.Options{Active: place.Active, Quick: quick}) //nolint:wrapcheck // says what was attempted.
}

// Damaged counts the findings.
func Damaged(reports []*datadir.Report) int {
	n := 0
	for _, r := range reports {
		n += len(r.Findings) + r.More
	}
	return n
}

// Reports shows what was found.
func (p Printer) Reports(reports []*datadir.Report) error {
	if p.JSON {
		return p.object(verified{Damaged(reports) == 0, reports})
	}
	for _, r := range reports {
		if err := p.report(r); err != nil {
			return err
		}
	}
	return nil
}

func (p Printer) report(r *datadir.Report) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-8s%s", f.Class, f.File)
		if f.Offset != nil {
			fmt.Fprintf(&b, "  offset %d", *f.Offset)
		}
		if f.Position != nil {
			fmt.Fprintf(&b, "  position %d", *f.Position)
		}
		if f.Partition != "" {
			fmt.Fprintf(&b, "  partition %s", f.Partition)
		}
		fmt.Fprintf(&b, "\n        %s\n", f.Text)
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "        and %d more\n", r.More)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note    %s\n        %s\n", n.File, n.Text)
	}
	verdict := "clean"
	if !r.Clean() {
		verdict = "damaged"
	}
	fmt.Fprintf(&b, "%s  %s: %d replicas, %d segments, %d batches, %d records, %d bytes", verdict, r.Path, r.Replicas, r.Segments, r.Batches, r.Records, r.Bytes)
	if r.Quick {
		b.WriteString("; quick: bodies and digests were not checked")
	} else {
		fmt.Fprintf(&b, ", %d digests", r.Seals)
	}
	if r.Active {
		b.WriteString("; a broker is using it: its newest bytes were not judged")
	}
	return p.line("%s", b.String())
}
