package sq_test

import (
	"testing"

	"github.com/seedqueue/sq/sdk/go/sq"
)

// Batched publish and consume allocate per batch, not per record. The server of the test is in the same process, so the bound is not zero.
func TestAllocationsPerRecord(t *testing.T) {
	if raceEnabled {
		t.Skip("SKIPPED under -race: it allocates by itself")
	}
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	records := make([]sq.Record, 2000)
	for i := range records {
		records[i] = sq.Record{Key: []byte("key"), Value: make([]byte, 100)}
	}
	p := c.Producer("orders")
	check := func(what string, run func()) {
		t.Helper()
		run()
		if n := testing.AllocsPerRun(10, run) / float64(len(records)); n > 0.1 {
			t.Errorf("%s: %.2f allocations a record", what, n)
		}
	}
	check("SendBatch", func() {
		if _, err := p.SendBatch(ctx, records); err != nil {
			t.Fatal(err)
		}
	})
	check("Go", func() {
		for i := range records {
			p.Go(records[i], nil)
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	})
	server.Trim("orders", 0, server.End("orders", 0)-int64(len(records)))
	read := func(options ...sq.ReadOption) func() {
		return func() {
			n := 0
			for _, err := range c.Read(ctx, "orders", append(options, sq.Until(sq.End))...) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != len(records) {
				t.Fatalf("%d records", n)
			}
		}
	}
	check("Read", read())
	check("Read with reuse", read(sq.ReuseRecords()))
	check("ReadBatches", func() {
		var r sq.Record
		for b, err := range c.ReadBatches(ctx, "orders", sq.Until(sq.End)) {
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Len() {
				b.Record(i, &r)
			}
		}
	})
}
