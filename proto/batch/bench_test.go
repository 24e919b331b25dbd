package batch_test

import (
	"fmt"
	"testing"

	"github.com/seedqueue/sq/proto/batch"
)

// logLines gives 1000 records of 100 bytes that compress as log lines do.
func logLines() []batch.Record {
	records := make([]batch.Record, 1000)
	for i := range records {
		line := fmt.Appendf(nil, "2026-11-30T12:00:00.%06dZ INFO request served status=200 path=/v1/orders/%d took=%dms agent=", i, i*7919, i%97)
		for len(line) < 100 {
			line = append(line, byte('a'+(len(line)*i)%23))
		}
		records[i] = batch.Record{Value: line[:100], Timestamp: int64(i)}
	}
	return records
}

func BenchmarkBuild(b *testing.B) {
	records := logLines()
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			var builder batch.Builder
			var dst []byte
			b.ReportAllocs()
			b.SetBytes(100 * 1000)
			for b.Loop() {
				builder.Reset()
				for i := range records {
					if err := builder.Add(records[i]); err != nil {
						b.Fatal(err)
					}
				}
				var err error
				if dst, err = builder.Build(dst[:0], batch.BuildOptions{ProducerID: 1, Codec: codec}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
	}
}

func BenchmarkRead(b *testing.B) {
	records := logLines()
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		b.Run(codec.String(), func(b *testing.B) {
			msg := build(b, records, batch.BuildOptions{Codec: codec})
			var r batch.Reader
			var rec batch.Record
			b.ReportAllocs()
			b.SetBytes(100 * 1000)
			for b.Loop() {
				if err := r.Reset(msg); err != nil {
					b.Fatal(err)
				}
				for i := range r.Len() {
					r.Record(i, &rec)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
	}
}

func BenchmarkParseHeader(b *testing.B) {
	msg := build(b, logLines(), batch.BuildOptions{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := batch.ParseHeader(msg); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStampAndChain(b *testing.B) {
	msg := build(b, logLines(), batch.BuildOptions{})
	s := batch.Stamps{Epoch: 1}
	b.ReportAllocs()
	for b.Loop() {
		batch.Stamp(msg, s)
		s.Chain = batch.NextChain(msg)
	}
}
