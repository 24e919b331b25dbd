package damage

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

// Config says of what a Keeper is. All fields are needed.
type Config struct {
	Replica partition.UUID
	Log     *wal.Log
	Journal *journal.Journal
	Logger  *slog.Logger
}

// Keeper keeps the damage of one log.
type Keeper struct {
	cfg Config
	mu  sync.Mutex // one examination or repair at a time
}

// Open makes durable what a recovery has found and the journal does not say. Errors: DiskPoisoned, DiskFull.
func Open(cfg Config, found wal.Recovery, kept journal.Replica) (*Keeper, error) {
	k := &Keeper{cfg: cfg}
	var records []journal.Record
	if !slices.Equal(found.Faults, kept.Faults) {
		records = append(records, journal.Faults(cfg.Replica, found.Faults))
	}
	if found.Class == segment.Suspect && !kept.Ragged {
		records = append(records, journal.Ragged(cfg.Replica, true))
	}
	for _, bad := range found.Faults {
		cfg.Logger.Error("a range of the log is damaged: it is not served, and this replica does not vouch for it", "offset", uint64(bad.From),
			"to", uint64(bad.To), "segment", uint64(bad.Base), "position", bad.Position, "limit", bad.Limit)
	}
	if err := k.put(records); err != nil {
		return nil, err
	}
	return k, nil
}

func (k *Keeper) put(records []journal.Record) error {
	if len(records) == 0 {
		return nil
	}
	err := k.cfg.Journal.Put(records...)
	if err == nil {
		err = k.cfg.Journal.Sync()
	}
	return fault.Wrap("keep damage", err)
}

// Keep makes what is damaged now durable, where the journal does not say it already.
func (k *Keeper) Keep() error {
	if kept, ok := k.cfg.Journal.Replica(k.cfg.Replica); ok && slices.Equal(kept.Faults, k.cfg.Log.Faults()) {
		return nil
	}
	return k.put([]journal.Record{journal.Faults(k.cfg.Replica, k.cfg.Log.Faults())})
}

// Suspect makes it durable that the end may have lost what was acknowledged.
func (k *Keeper) Suspect() error { return k.put([]journal.Record{journal.Ragged(k.cfg.Replica, true)}) }

// CaughtUp takes that back. It need not be durable: to remember it too long costs an election some patience.
func (k *Keeper) CaughtUp() error {
	return fault.Wrap("keep damage", k.cfg.Journal.Put(journal.Ragged(k.cfg.Replica, false)))
}

// Ranges gives what is damaged now, in order.
func (k *Keeper) Ranges() []quorum.Range {
	faults := k.cfg.Log.Faults()
	out := make([]quorum.Range, len(faults))
	for i, bad := range faults {
		out[i] = quorum.Range{From: bad.From, To: bad.To}
	}
	return out
}

// Examine reads the segment that holds an offset again because something there could not be read, or can be again. It tells whether what is damaged
// has changed; that is durable then. It waits for the disk. Errors: DiskPoisoned, DiskFull.
func (k *Keeper) Examine(at partition.Offset) (news bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	news, err = k.cfg.Log.Examine(at)
	if err != nil || !news {
		return false, err //nolint:wrapcheck // says what was attempted.
	}
	return true, k.Keep()
}

// Repair puts good batches in the place of a damaged range, as wal.Log.Repair does, and makes the shorter list durable. Not beside an append.
func (k *Keeper) Repair(batches [][]byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.cfg.Log.Repair(batches); err != nil {
		return err //nolint:wrapcheck // says what was attempted.
	}
	return k.put([]journal.Record{journal.Faults(k.cfg.Replica, k.cfg.Log.Faults())})
}
