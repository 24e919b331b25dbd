package outbox

import (
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// parcel is an Install on its way.
type parcel struct {
	to   partition.Member
	head quorum.Install
	data []byte
}

// Parcel sends an Install in parts, as room allows. One for the same replica that is under way goes on instead.
func (o *Outbox) Parcel(to partition.Member, head quorum.Install, data []byte) {
	for _, p := range o.parcels {
		if p.to == to {
			return
		}
	}
	head.Size = uint64(len(data))
	o.parcels = append(o.parcels, &parcel{to: to, head: head, data: data})
	o.Flush()
}

// Parcels tells whether an Install is on its way to a replica.
func (o *Outbox) Parcels(to partition.Member) bool {
	for _, p := range o.parcels {
		if p.to == to {
			return true
		}
	}
	return false
}

// flushParcels sends what there is room for.
func (o *Outbox) flushParcels() {
	kept := o.parcels[:0]
	for _, p := range o.parcels {
		for int(p.head.From) < len(p.data) {
			room := o.cfg.Peers.Room(p.to.Broker)
			if room <= 0 {
				o.later(roomWait)
				break
			}
			part := p.data[p.head.From:min(int(p.head.From)+min(room, pieceBytes), len(p.data))]
			m := p.head
			m.Part = part
			o.cfg.Peers.Send(peer.Message{Partition: o.cfg.Partition, From: o.cfg.Self, To: p.to, Quorum: m, Body: frame.Bytes(part)})
			p.head.From += uint64(len(part))
		}
		if int(p.head.From) < len(p.data) {
			kept = append(kept, p)
		}
	}
	clear(o.parcels[len(kept):])
	o.parcels = kept
}
