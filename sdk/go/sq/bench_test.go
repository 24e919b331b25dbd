package sq_test

import (
	"context"
	"testing"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/sdk/go/sqtest"
)

const benchRecords = 1000

func benchClient(b *testing.B) (*sqtest.Server, *sq.Client) {
	b.Helper()
	server := sqtest.Start(b)
	server.CreateTopic("bench", 1)
	return server, server.Client(b)
}

// trimEach keeps the server's memory small: the client is what is measured, though the server runs beside it.
func trimEach(server *sqtest.Server, i int) {
	if i%100 == 99 {
		server.Trim("bench", 0, server.End("bench", 0)-50*benchRecords)
	}
}

func BenchmarkSendBatch(b *testing.B) {
	server, c := benchClient(b)
	p := c.Producer("bench")
	records := make([]sq.Record, benchRecords)
	for i := range records {
		records[i].Value = make([]byte, 100)
	}
	b.ReportAllocs()
	b.SetBytes(100 * benchRecords)
	n := 0
	for b.Loop() {
		if _, err := p.SendBatch(context.Background(), records); err != nil {
			b.Fatal(err)
		}
		trimEach(server, n)
		n++
	}
	b.ReportMetric(float64(n)*benchRecords/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkGo(b *testing.B) {
	server, c := benchClient(b)
	p := c.Producer("bench")
	payload := make([]byte, 100)
	b.ReportAllocs()
	b.SetBytes(100 * benchRecords)
	n := 0
	failed := func(_ sq.Ack, err error) {
		if err != nil {
			b.Error(err)
		}
	}
	for b.Loop() {
		for range benchRecords {
			p.Go(sq.Record{Value: payload}, failed)
		}
		trimEach(server, n)
		n++
	}
	if err := p.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(n)*benchRecords/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkSendOne(b *testing.B) {
	_, c := benchClient(b)
	p := c.Producer("bench")
	r := sq.Record{Value: make([]byte, 100)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Send(context.Background(), r); err != nil {
			b.Fatal(err)
		}
	}
}

// fillBench makes a log of 200,000 records of 100 bytes.
func fillBench(b *testing.B, c *sq.Client) {
	b.Helper()
	p := c.Producer("bench", sq.BatchBytes(256<<10))
	for range 200 * benchRecords {
		p.Go(sq.Record{Value: make([]byte, 100)}, nil)
	}
	if err := p.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
}

func BenchmarkReadBatches(b *testing.B) {
	_, c := benchClient(b)
	fillBench(b, c)
	b.ReportAllocs()
	n := 0
	var r sq.Record
	for b.Loop() {
		for batch, err := range c.ReadBatches(context.Background(), "bench", sq.Until(sq.End)) {
			if err != nil {
				b.Fatal(err)
			}
			for i := range batch.Len() {
				batch.Record(i, &r)
				n++
			}
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

func BenchmarkRead(b *testing.B) {
	for name, options := range map[string][]sq.ReadOption{"keep": nil, "reuse": {sq.ReuseRecords()}} {
		b.Run(name, func(b *testing.B) {
			_, c := benchClient(b)
			fillBench(b, c)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for _, err := range c.Read(context.Background(), "bench", append(options, sq.Until(sq.End))...) {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
