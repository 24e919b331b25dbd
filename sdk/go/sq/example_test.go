package sq_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/sdk/go/sqtest"
)

// example gives a client of a server in memory; a program calls sq.Open(ctx, "localhost:6064").
func example() (context.Context, *sq.Client, func()) {
	server, err := sqtest.New()
	if err != nil {
		log.Fatal(err)
	}
	server.CreateTopic("orders", 1)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	c, err := sq.Open(ctx, server.Addr())
	if err != nil {
		log.Fatal(err)
	}
	return ctx, c, func() {
		_ = c.Close()
		server.Close()
		cancel()
	}
}

func ExampleProducer_Send() {
	ctx, c, done := example()
	defer done()

	p := c.Producer("orders")
	ack, err := p.Send(ctx, sq.Record{Key: []byte("c42"), Value: []byte("two apples")})
	switch {
	case errors.Is(err, sq.ErrOutcomeUnknown):
		fmt.Println("perhaps stored") // the honest third answer
	case err != nil:
		fmt.Println("not stored:", err)
	default:
		fmt.Printf("orders/%d@%d\n", ack.Partition, ack.Offset)
	}
	// Output: orders/0@0
}

func ExampleProducer_SendBatch() {
	ctx, c, done := example()
	defer done()

	p := c.Producer("orders", sq.Compression(sq.Zstd))
	results, err := p.SendBatch(ctx, []sq.Record{
		{Key: []byte("c42"), Value: []byte("two apples")},
		{Key: []byte("c42"), Value: nil}, // null: a tombstone
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		fmt.Printf("orders/%d@%d\n", r.Partition, r.Offset)
	}
	// Output:
	// orders/0@0
	// orders/0@1
}

func ExampleProducer_Go() {
	ctx, c, done := example()
	defer done()

	p := c.Producer("orders", sq.Linger(5*time.Millisecond), sq.MaxBuffered(16<<20))
	for i := range 3 {
		p.Go(sq.Record{Value: fmt.Append(nil, "order ", i)}, func(a sq.Ack, err error) {
			fmt.Println(a.Offset, err)
		})
	}
	if err := p.Flush(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 0 <nil>
	// 1 <nil>
	// 2 <nil>
}

func ExampleClient_Read() {
	ctx, c, done := example()
	defer done()
	p := c.Producer("orders")
	for _, text := range []string{"two apples", "a pear"} {
		if _, err := p.Send(ctx, sq.Record{Value: []byte(text)}); err != nil {
			log.Fatal(err)
		}
	}

	for r, err := range c.Read(ctx, "orders", sq.From(sq.Earliest), sq.Until(sq.End)) {
		if t, ok := errors.AsType[*sq.TrimmedError](err); ok {
			log.Fatalf("the log starts at %d", t.Start)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d/%d %s\n", r.Partition, r.Offset, r.Value)
	}
	// Output:
	// 0/0 two apples
	// 0/1 a pear
}

// Replay by time: what was appended in the last hour.
func ExampleClient_Read_time() {
	ctx, c, done := example()
	defer done()
	if _, err := c.Producer("orders").Send(ctx, sq.Record{Value: []byte("two apples")}); err != nil {
		log.Fatal(err)
	}

	now := time.Now()
	for r, err := range c.Read(ctx, "orders", sq.From(sq.Time(now.Add(-time.Hour))), sq.Until(sq.Time(now))) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(r.Value))
	}
	// Output: two apples
}

func ExampleClient_ReadBatches() {
	ctx, c, done := example()
	defer done()
	if _, err := c.Producer("orders").SendBatch(ctx, []sq.Record{{Value: []byte("a")}, {Value: []byte("b")}}); err != nil {
		log.Fatal(err)
	}

	var r sq.Record
	for b, err := range c.ReadBatches(ctx, "orders", sq.Until(sq.End)) {
		if err != nil {
			log.Fatal(err)
		}
		for i := range b.Len() {
			b.Record(i, &r)
			fmt.Println(r.Offset, string(r.Value))
		}
	}
	// Output:
	// 0 a
	// 1 b
}

func ExampleClient_ListOffsets() {
	ctx, c, done := example()
	defer done()
	if _, err := c.Producer("orders").Send(ctx, sq.Record{Value: []byte("two apples")}); err != nil {
		log.Fatal(err)
	}

	at, err := c.ListOffsets(ctx, "orders", 0, sq.Latest)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(at.LogStart, at.HighWatermark)
	// Output: 0 1
}
