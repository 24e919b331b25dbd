package outbox

import (
	"log/slog"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

const (
	pieceBytes = 1 << 20              // of the log, sent as one message
	roomWait   = 5 * time.Millisecond // before the room of a broker is looked at again, at first
	roomWaits  = 500 * time.Millisecond
	liveBytes  = 8 << 20 // a peer that gets so much and is not at the end is far behind
)

// Peers carries messages; peer.Peers does.
type Peers interface {
	Send(m peer.Message)
	Room(to partition.NodeID) int
}

// Config says whose outbox it is; all of it is needed.
type Config struct {
	Partition partition.ID
	Self      partition.Member
	Log       *wal.Log
	Peers     Peers
	Rate      *Rate // of what peers get that are far behind
	Logger    *slog.Logger
	// Do has a job done by a worker, Post a call on the replica's goroutine, Later the same after a while.
	Do    func(job func())
	Post  func(call func()) bool
	Later func(wait time.Duration, call func())
	// EpochBefore and Written are the core's, Exported how far manifests cover the log.
	EpochBefore func(partition.Offset) partition.Epoch
	Written     func() partition.Offset
	Exported    func() partition.Offset
}

// Outbox holds what is to be sent. New makes one.
type Outbox struct {
	cfg     Config
	lanes   []*lane
	parcels []*parcel
	waiting bool // for room
	wait    time.Duration
}

// lane is what one peer is to be sent: [at, until) of the log.
type lane struct {
	to        partition.Member
	head      quorum.Append // Epoch, Round, HighWatermark and, where nothing is to be sent, PrevChain
	at, until partition.Offset
	news      bool // the head says what was not sent
	lazy      bool // and it may wait
	reading   bool
	turn      uint64 // of what is being read; another one makes it void
	behind    int64  // bytes that were sent since the peer was at the end
}

// New makes an empty Outbox.
func New(cfg Config) *Outbox { return &Outbox{cfg: cfg} }

// Reset forgets what is not sent.
func (o *Outbox) Reset() {
	for _, l := range o.lanes {
		l.turn++
	}
	o.lanes, o.parcels = nil, nil
}

// Send takes a message. It leaves with the next Flush, if the log it speaks of is written.
func (o *Outbox) Send(m quorum.Send) {
	a, ok := m.Message.(quorum.Append)
	if !ok {
		o.cfg.Peers.Send(peer.Message{Partition: o.cfg.Partition, From: o.cfg.Self, To: m.To, Quorum: m.Message})
		return
	}
	l := o.lane(m.To)
	if l.head.Epoch != a.Epoch || l.until != a.Prev {
		l.at = a.Prev
		l.turn++
		l.reading = false
	}
	l.until, l.head = a.Until, a
	l.lazy = m.Lazy && (l.lazy || !l.news)
	l.news = true
}

func (o *Outbox) lane(to partition.Member) *lane {
	for _, l := range o.lanes {
		if l.to == to {
			return l
		}
	}
	l := &lane{to: to}
	o.lanes = append(o.lanes, l)
	return l
}

// Flush sends what can be sent.
func (o *Outbox) Flush() {
	o.flushParcels()
	written := o.cfg.Written()
	for _, l := range o.lanes {
		switch {
		case l.reading:
		case l.at < min(l.until, written):
			o.read(l, min(l.until, written))
		case l.at == l.until && l.news:
			m := l.head
			m.Prev, m.PrevEpoch, m.Until = l.at, o.cfg.EpochBefore(l.at), l.at
			if l.head.Prev != l.head.Until {
				m.PrevChain = 0 // that of another place
			}
			o.append(l, m, nil)
		}
	}
}

// append sends a piece, or the head alone.
func (o *Outbox) append(l *lane, m quorum.Append, body *wal.Chunk) {
	out := peer.Message{
		Partition: o.cfg.Partition, From: o.cfg.Self, To: l.to, Quorum: m, Exported: o.cfg.Exported(), Lazy: body == nil && l.lazy,
	}
	if body != nil {
		out.Body = body
	}
	l.news, l.lazy = false, false
	o.cfg.Peers.Send(out)
}

// read has the next piece of a lane found and sent.
func (o *Outbox) read(l *lane, limit partition.Offset) {
	room := o.cfg.Peers.Room(l.to.Broker)
	if room <= 0 {
		o.wait = min(max(2*o.wait, roomWait), roomWaits) // perhaps nobody is there
		o.later(o.wait)
		return
	}
	o.wait = 0
	if l.behind >= liveBytes {
		if wait := o.cfg.Rate.take(pieceBytes); wait > 0 {
			o.later(wait)
			return
		}
	}
	l.reading = true
	turn, from := l.turn, l.at
	o.cfg.Do(func() {
		chunk, err := o.cfg.Log.Read(from, limit, min(room, pieceBytes))
		if err == nil && (chunk.FirstOffset != from || chunk.Len() == 0) {
			_ = chunk.Close() // it only lets go
			err = fault.Errorf(fault.Internal, "no batch begins at %d, the one before reaches to %d", from, chunk.NextOffset)
		}
		if !o.cfg.Post(func() { o.got(l, turn, chunk, err) }) && err == nil {
			_ = chunk.Close() // it only lets go
		}
	})
}

// got sends a piece that was read, and has the next one read.
func (o *Outbox) got(l *lane, turn uint64, chunk *wal.Chunk, err error) {
	stale := turn != l.turn
	switch {
	case err != nil && !stale:
		// Dropped meanwhile, or damaged. The peer says what it lacks when it is asked, and the protocol sees what can be done.
		o.cfg.Logger.Warn("cannot read the log for another replica", "offset", l.at, "node", l.to.Broker, "err", err)
		l.at, l.reading = l.until, false
		return
	case err != nil:
		return
	case stale:
		_ = chunk.Close() // it only lets go
		return
	}
	m := l.head
	m.Prev, m.PrevEpoch, m.PrevChain, m.Until = l.at, o.cfg.EpochBefore(l.at), 0, chunk.NextOffset
	l.at, l.reading = chunk.NextOffset, false
	if l.behind += int64(chunk.Len()); l.at == l.until {
		l.behind = 0
	}
	o.append(l, m, chunk)
	o.Flush()
}

// later has Flush called when there may be room again.
func (o *Outbox) later(wait time.Duration) {
	if o.waiting {
		return
	}
	o.waiting = true
	o.cfg.Later(wait, func() {
		o.waiting = false
		o.Flush()
	})
}

// Serve answers a candidate's Fetch with a piece of the log; it asks for the next.
func (o *Outbox) Serve(e quorum.ServeFetch) {
	o.cfg.Do(func() {
		chunk, err := o.cfg.Log.Read(e.From, e.Until, pieceBytes)
		if err != nil {
			o.cfg.Logger.Warn("cannot read the log for a candidate", "offset", e.From, "node", e.To.Broker, "epoch", e.Epoch, "err", err)
			return
		}
		o.cfg.Peers.Send(peer.Message{
			Partition: o.cfg.Partition, From: o.cfg.Self, To: e.To, Quorum: quorum.Fetched{Epoch: e.Epoch}, Body: chunk,
		})
	})
}
