package peer

import (
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// blob is a body that counts how often it is closed.
type blob struct {
	size   int
	closed int
}

func (b *blob) Len() int { return b.size }
func (b *blob) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(make([]byte, b.size))
	return int64(n), err
}

func (b *blob) Close() error {
	b.closed++
	return nil
}

func appendOf(id, size int, prev, until partition.Offset) Message {
	return Message{
		Partition: partitionID(id), From: member(1), To: member(2), Body: &blob{size: size}, Quorum: quorum.Append{Epoch: 1, Prev: prev, Until: until},
	}
}

func headOf(id int, at, hw partition.Offset, round uint64) Message {
	return Message{
		Partition: partitionID(id), From: member(1), To: member(2), Lazy: true,
		Quorum: quorum.Append{Epoch: 1, Round: round, Prev: at, Until: at, HighWatermark: hw},
	}
}

var epoch = time.Unix(1_900_000_000, 0)

// One busy partition does not starve others: they take turns, and what it has queued leaves them their share of the room.
func TestQueueIsFair(t *testing.T) {
	q := newQueue()
	busy, quiet := partitionID(1), partitionID(2)
	for q.room(busy) >= 256<<10 {
		q.push(appendOf(1, 256<<10, 0, 1), epoch)
	}
	if got := q.room(quiet); got < creditBytes/2-256<<10 {
		t.Errorf("beside a busy partition there is room for %d bytes", got)
	}
	q.push(appendOf(2, 1000, 0, 1), epoch)
	out, _ := q.take(epoch)
	if n := len(out.messages); n < 2 || out.messages[1].Partition != quiet {
		t.Fatalf("the first frame has %d messages, not one of the quiet partition in its turn", n)
	}
	if got := q.room(busy); got != 0 {
		t.Errorf("the busy partition may queue %d bytes more although its share is taken", got)
	}
}

// At most the credit is unanswered; a larger message goes alone; an answer makes room for the next.
func TestQueueKeepsCredit(t *testing.T) {
	q := newQueue()
	for i := range 20 {
		q.push(appendOf(i, 1<<20, 0, 1), epoch)
	}
	var frames []*outgoing
	for {
		out, _ := q.take(epoch)
		if out == nil {
			break
		}
		frames = append(frames, out)
	}
	if q.unanswered != creditBytes || len(frames) != creditBytes/frameBodyBytes {
		t.Fatalf("%d bytes are unanswered in %d frames", q.unanswered, len(frames))
	}
	q.answered(frames[0])
	if out, _ := q.take(epoch); out == nil || out.bytes != 1<<20 {
		t.Fatal("an answer does not let the next frame out")
	}
	alone := newQueue()
	alone.push(appendOf(1, creditBytes+5, 0, 1), epoch)
	alone.push(appendOf(2, 5, 0, 1), epoch)
	if out, _ := alone.take(epoch); out == nil || len(out.messages) != 1 {
		t.Fatal("a message larger than the credit does not go alone")
	}
	if out, _ := alone.take(epoch); out != nil {
		t.Fatal("something goes beside a message larger than the credit")
	}
}

// What says only how far the log is committed waits for company, rides with what it follows, and is said once.
func TestQueueMerges(t *testing.T) {
	q := newQueue()
	q.push(headOf(1, 10, 5, 1), epoch)
	q.push(headOf(1, 10, 7, 2), epoch.Add(10*time.Millisecond))
	if out, due := q.take(epoch.Add(49 * time.Millisecond)); out != nil || !due.Equal(epoch.Add(lazyWait)) {
		t.Fatalf("a lazy message goes at once, or waits until %v", due)
	}
	out, _ := q.take(epoch.Add(lazyWait))
	if out == nil || len(out.messages) != 1 || out.messages[0].Quorum.(quorum.Append).HighWatermark != 7 {
		t.Fatalf("sent %+v, want the newer high watermark alone", out)
	}
	q.answered(out)
	q.push(headOf(1, 10, 8, 3), epoch)
	q.push(appendOf(2, 100, 0, 1), epoch)
	if out, _ = q.take(epoch); out == nil || len(out.messages) != 2 {
		t.Fatal("a lazy message does not ride with another partition's")
	}
	q.push(appendOf(3, 100, 10, 20), epoch)
	q.push(headOf(3, 20, 20, 4), epoch)
	out, _ = q.take(epoch)
	if a := out.messages[0].Quorum.(quorum.Append); len(out.messages) != 1 || a.HighWatermark != 20 || a.Round != 4 || a.Prev != 10 || a.Until != 20 {
		t.Errorf("sent %+v, want the batches with the high watermark behind them", out.messages)
	}
	for name, m := range map[string]quorum.Append{
		"of another epoch": {Epoch: 2, Prev: 20, Until: 20, HighWatermark: 30, Round: 9},
		"of another place": {Epoch: 1, Prev: 15, Until: 15, HighWatermark: 30, Round: 9},
		"that goes back":   {Epoch: 1, Prev: 20, Until: 20, HighWatermark: 1, Round: 9},
	} {
		old, newer := appendOf(3, 100, 10, 20), headOf(3, 0, 0, 0)
		old.Quorum = quorum.Append{Epoch: 1, Prev: 10, Until: 20, HighWatermark: 3}
		newer.Quorum = m
		if merge(&old, &newer) {
			t.Errorf("an Append %s was merged", name)
		}
	}
}

// The oldest go where a partition has too much; the bodies of what goes are given back.
func TestQueueDropsTheOldest(t *testing.T) {
	q := newQueue()
	for i := range laneMessagesMax + 3 {
		q.push(appendOf(1, 10, partition.Offset(i), partition.Offset(i+1)), epoch)
	}
	var gone []partition.Offset
	for _, d := range q.trash {
		gone = append(gone, d.message.Quorum.(quorum.Append).Prev)
	}
	if diff := cmp.Diff([]partition.Offset{0, 1, 2}, gone); diff != "" {
		t.Error(diff)
	}
	if l := q.lanes[partitionID(1)]; l.queued != laneMessagesMax*10 {
		t.Errorf("%d bytes are accounted", l.queued)
	}
}

// Random pushes, frames, answers and losses: order within a partition, credit, accounting, and every body given back once.
func TestQueueModel(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		q := newQueue()
		var blobs []*blob
		var flying []*outgoing
		next, last := map[int]partition.Offset{}, map[int]partition.Offset{}
		now := epoch
		finish := func() {
			for _, d := range q.trash {
				if d.message.Body != nil {
					_ = d.message.Body.Close()
				}
			}
			q.trash = nil
		}
		for range 400 {
			now = now.Add(time.Duration(random.IntN(20)) * time.Millisecond)
			id := random.IntN(4)
			switch random.IntN(6) {
			case 0, 1:
				b := &blob{size: 1 + random.IntN(2<<20)}
				blobs = append(blobs, b)
				m := appendOf(id, 0, next[id], next[id]+1)
				next[id]++
				m.Body = b
				q.push(m, now)
			case 2:
				q.push(headOf(id, next[id], next[id], 0), now)
			case 3:
				out, _ := q.take(now)
				if out == nil {
					continue
				}
				flying = append(flying, out)
				for i := range out.messages {
					a := out.messages[i].Quorum.(quorum.Append)
					n := int(out.messages[i].Partition.Index)
					if a.Until < last[n] {
						t.Fatalf("seed %d: partition %d goes back from %d to %d", seed, n, last[n], a.Until)
					}
					last[n] = a.Until
				}
				if len(out.messages) > 1 && out.bytes > frameBodyBytes || q.unanswered > creditBytes && len(flying) > 1 {
					t.Fatalf("seed %d: a frame of %d bytes, %d unanswered", seed, out.bytes, q.unanswered)
				}
			case 4:
				if len(flying) > 0 {
					i := random.IntN(len(flying))
					for j := range flying[i].messages {
						if body := flying[i].messages[j].Body; body != nil {
							_ = body.Close()
						}
					}
					q.answered(flying[i])
					flying = append(flying[:i], flying[i+1:]...)
				}
			case 5:
				if random.IntN(20) == 0 {
					q.clear(unreachable)
				}
			}
			finish()
		}
		q.clear(stopped)
		finish()
		for _, out := range flying {
			for j := range out.messages {
				if body := out.messages[j].Body; body != nil {
					_ = body.Close()
				}
			}
			q.answered(out)
		}
		for i, b := range blobs {
			if b.closed != 1 {
				t.Fatalf("seed %d: body %d was closed %d times", seed, i, b.closed)
			}
		}
		if len(q.lanes)+len(q.ring)+q.queued+q.lazy+q.active+q.waiting+q.unanswered+q.frames != 0 {
			t.Fatalf("seed %d: left behind: %+v", seed, q)
		}
	}
}
