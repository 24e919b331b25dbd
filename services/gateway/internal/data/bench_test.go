package data

import (
	"context"
	"testing"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
)

// BenchmarkPublish is the gateway's part of a publish: one in flight, and many, of a batch of one record, to a broker that answers at once.
func BenchmarkPublish(b *testing.B) {
	w := newWorld(b, nil)
	w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
		_ = req.Reply(func(res wirecapnp.Response) error { _, err := res.NewPublish(); return err }, nil)
		return true
	})
	body := standin.One(b, "0123456789", batch.Key128{})
	direct, err := w.Net.At("client").Dial(b.Context(), w.Brokers[1].Addr)
	if err != nil {
		b.Fatal(err)
	}
	broker := frame.NewClient(direct, frame.ClientConfig{})
	b.Cleanup(func() { _ = broker.Close() })
	if _, err := broker.Hello(b.Context(), frame.HelloParams{}); err != nil {
		b.Fatal(err)
	}
	for name, client := range map[string]*frame.Client{"through": w.client(b), "direct": broker} {
		for _, window := range []int{1, 64} {
			b.Run(name+"/"+map[int]string{1: "one", 64: "many"}[window], func(b *testing.B) {
				b.ReportAllocs()
				pending := make([]*frame.Pending, 0, window)
				for range b.N {
					one, err := client.Start(b.Context(), publishTo(w.ID(0)), body)
					if err != nil {
						b.Fatal(err)
					}
					if pending = append(pending, one); len(pending) == window {
						finish(b, pending)
						pending = pending[:0]
					}
				}
				finish(b, pending)
			})
		}
	}
}

func finish(b *testing.B, pending []*frame.Pending) {
	for _, one := range pending {
		reply, err := one.Wait(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		reply.Release()
	}
}
