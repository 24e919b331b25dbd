package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/seedqueue/sq/cli/internal/line"
	"github.com/seedqueue/sq/cli/internal/sheet"
	"github.com/seedqueue/sq/sdk/go/sq"
)

// stored is what a run has stored in a partition.
type stored struct {
	Partition int   `json:"partition"`
	Records   int64 `json:"records"`
	First     int64 `json:"firstOffset"`
	Last      int64 `json:"lastOffset"`
}

// tally counts the answers of a run. Its take is called by the producer's goroutines.
type tally struct {
	stop func(error) // ends the run, at the first error

	mu struct {
		sync.Mutex

		partitions []stored
		durability sq.Durability // the weakest
		failed     int64
		err        error // the first
	}
}

func (t *tally) take(ack sq.Ack, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.mu.failed++
		if t.mu.err == nil {
			t.mu.err = err
			t.stop(err)
		}
		return
	}
	if len(t.mu.partitions) == 0 || ack.Durability < t.mu.durability {
		t.mu.durability = ack.Durability
	}
	at := slices.IndexFunc(t.mu.partitions, func(s stored) bool { return s.Partition == ack.Partition })
	if at < 0 {
		at = len(t.mu.partitions)
		t.mu.partitions = append(t.mu.partitions, stored{Partition: ack.Partition, First: ack.Offset})
	}
	s := &t.mu.partitions[at]
	s.Records++
	s.Last = ack.Offset
}

// summary is how a run ended.
type summary struct {
	Topic      string   `json:"topic"`
	Records    int64    `json:"records"`
	Bytes      int64    `json:"bytes"`
	Seconds    float64  `json:"seconds"`
	Durability string   `json:"durability"`
	Partitions []stored `json:"partitions"`
}

// produceAll publishes what next gives.
func (p *program) produceAll(
	ctx context.Context, producer *sq.Producer, topic string, next func() (sq.Record, error), size int64, o *produceOptions,
) error {
	start := p.env.Now()
	sending, abort := context.WithCancel(ctx)
	defer abort()
	reading, stop := context.WithCancel(sending)
	defer stop()
	t := &tally{stop: func(err error) {
		if errors.Is(err, sq.ErrTooLarge) { // it never was on its way: what was handed over before it still goes out
			stop()
			return
		}
		abort()
	}}
	// A call that waits for room has no context of its own: the end of sending ends the producer.
	handedOver := context.AfterFunc(sending, func() { _ = producer.Close(sending) })
	progress := p.progress(size)
	bytes, err := p.pump(reading, producer, next, o, t, progress)
	handedOver()
	closeErr := producer.Close(ctx)
	progress.end()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.mu.err != nil: // why the rest was not read
		err = t.mu.err
	case err == nil:
		err = errors.Join(ctx.Err(), closeErr)
	}
	done := summary{Topic: topic, Bytes: bytes, Seconds: p.env.Now().Sub(start).Seconds(), Durability: t.mu.durability.String(), Partitions: t.mu.partitions}
	for _, s := range t.mu.partitions {
		done.Records += s.Records
	}
	if err != nil {
		return &partialError{stored: done.Records, failed: t.mu.failed, err: err}
	}
	return p.summarize(done, o.output)
}

// pump hands records over until there are no more, one failed, or ctx ends. It gives the bytes of the values.
func (p *program) pump(
	ctx context.Context, producer *sq.Producer, next func() (sq.Record, error), o *produceOptions, t *tally, progress *progress,
) (bytes int64, err error) {
	take, options := t.take, o.send()
	pinned := o.partition >= 0
	for ctx.Err() == nil {
		r, err := next()
		if errors.Is(err, io.EOF) {
			return bytes, nil
		}
		if err != nil {
			if _, long := errors.AsType[*line.TooLongError](err); !long {
				err = fmt.Errorf("read records: %w", err)
			}
			return bytes, err
		}
		bytes += int64(len(r.Value))
		progress.add(len(r.Value))
		switch {
		case r.Key != nil && o.partition < 0:
			producer.Go(r, take) //nolint:contextcheck // the end of ctx ends the producer.
		case pinned:
			producer.Go(r, take, options...) //nolint:contextcheck // as above.
		default: // The first record without a key shows where the others go.
			ack, err := producer.Send(ctx, r)
			take(ack, err)
			options, pinned = []sq.SendOption{sq.ToPartition(ack.Partition)}, true
		}
	}
	return bytes, nil
}

// partialError says what is stored although a run failed.
type partialError struct {
	stored, failed int64
	err            error
}

func (e *partialError) Error() string {
	return fmt.Sprintf("%v (before it %s stored, %d not acknowledged)", e.err, sheet.Records(e.stored), e.failed)
}
func (e *partialError) Unwrap() error { return e.err }

func (p *program) summarize(s summary, output string) error {
	if output == outputJSON {
		return json.NewEncoder(p.env.Stdout).Encode(s)
	}
	if s.Records == 0 {
		_, err := fmt.Fprintf(p.env.Stdout, "%s  no records\n", s.Topic)
		return err
	}
	where := s.Topic
	if len(s.Partitions) == 1 {
		where = fmt.Sprintf("%s/%d@%d", s.Topic, s.Partitions[0].Partition, s.Partitions[0].First)
		if s.Records > 1 {
			where += fmt.Sprintf("-%d", s.Partitions[0].Last)
		}
	}
	rate := ""
	if s.Seconds > 0 {
		rate = "  " + sheet.Size(int64(float64(s.Bytes)/s.Seconds)) + "/s"
	}
	_, err := fmt.Fprintf(p.env.Stdout, "%s  %s  %s  %s  %.1f s%s\n",
		where, sheet.Records(s.Records), sheet.Size(s.Bytes), s.Durability, s.Seconds, rate)
	return err
}

// progress shows how far a run is, on a terminal only.
type progress struct {
	out         io.Writer // nil = nobody watches
	now         func() time.Time
	size        int64 // 0 = not known
	start, next time.Time
	bytes, seen int64
	records     int64
}

const (
	progressEvery = 200 * time.Millisecond
	// progressLook is after how many bytes the clock is looked at.
	progressLook = 1 << 20
)

func (p *program) progress(size int64) *progress {
	shown := &progress{now: p.env.Now, size: size, start: p.env.Now()}
	if p.env.StderrTerminal {
		shown.out = p.env.Stderr
	}
	shown.next = shown.start.Add(progressEvery)
	return shown
}

// add counts a record of so many bytes.
func (g *progress) add(bytes int) {
	g.bytes += int64(bytes)
	g.records++
	if g.out == nil || g.bytes-g.seen < progressLook {
		return
	}
	g.seen = g.bytes
	if now := g.now(); now.After(g.next) {
		g.next = now.Add(progressEvery)
		part := ""
		if g.size > 0 {
			part = fmt.Sprintf("%3d%%  ", min(100, 100*g.bytes/g.size))
		}
		fmt.Fprintf(g.out, "\r%s%d records  %s  %s/s\x1b[K", part, g.records, sheet.Size(g.bytes), sheet.Size(int64(float64(g.bytes)/now.Sub(g.start).Seconds())))
	}
}

// end wipes the line.
func (g *progress) end() {
	if g.out != nil {
		fmt.Fprint(g.out, "\r\x1b[K")
	}
}
