package reports

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/partition"
)

// freshFor is how long a report counts. Brokers repeat theirs every 2 s.
const freshFor = 10 * time.Second

// Process is a broker in one incarnation.
type Process struct {
	Broker      partition.NodeID
	Incarnation partition.Incarnation
}

// Lost is a replica that can never again be what it was.
type Lost struct {
	Partition partition.ID
	Replica   partition.UUID
	Reason    string
}

// Disk is a data disk as its broker finds it.
type Disk struct {
	ID          partition.UUID
	State       string
	Free, Total uint64
}

// States of a Disk.
const (
	DiskOK   = "ok"
	DiskSlow = "slow" // leaders go elsewhere
	DiskFull = "full" // leaders go elsewhere, and no new replica comes
)

// Report is what a broker says.
type Report struct {
	From     Process
	Suspects []Process
	Lost     []Lost
	Draining bool
	Disks    []Disk

	at time.Time
}

// same tells whether another report says the same; numbers of free bytes do not count.
func (r Report) same(other Report) bool {
	return r.From == other.From && r.Draining == other.Draining && slices.Equal(r.Suspects, other.Suspects) && slices.Equal(r.Lost, other.Lost) &&
		slices.EqualFunc(r.Disks, other.Disks, func(a, b Disk) bool { return a.ID == b.ID && a.State == b.State })
}

// Reports are the fresh ones at a moment, by broker.
type Reports map[partition.NodeID]Report

// Lost tells whether a replica's own broker says that it is.
func (r Reports) Lost(id partition.ID, m partition.Member) bool {
	return slices.ContainsFunc(r[m.Broker].Lost, func(l Lost) bool { return l.Partition == id && l.Replica == m.Replica })
}

// Book holds the newest report of each broker.
type Book struct {
	mu struct {
		sync.Mutex

		reports Reports
		changed chan struct{} // closed when a report says something new
	}
}

// NewBook makes an empty one.
func NewBook() *Book {
	b := &Book{}
	b.mu.reports = Reports{}
	b.mu.changed = make(chan struct{})
	return b
}

// Take takes a report in. One of an earlier incarnation than the last is dropped.
func (b *Book) Take(r Report, now time.Time) {
	r.at = now
	b.mu.Lock()
	defer b.mu.Unlock()
	old, had := b.mu.reports[r.From.Broker]
	if had && old.From.Incarnation > r.From.Incarnation {
		return
	}
	b.mu.reports[r.From.Broker] = r
	if !had || !r.same(old) || now.Sub(old.at) > freshFor {
		close(b.mu.changed)
		b.mu.changed = make(chan struct{})
	}
}

// Now gives the reports that are fresh.
func (b *Book) Now(now time.Time) Reports {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.mu.reports, func(_ partition.NodeID, r Report) bool { return now.Sub(r.at) > freshFor })
	return maps.Clone(b.mu.reports)
}

// Changed gives a channel that is closed when a report says something new. Take it before the Reports that are looked at.
func (b *Book) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.changed
}

// Forget drops all.
func (b *Book) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.mu.reports)
}
