package placement

import (
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

// Place gives, for each of the new partitions, the brokers of its replicas, the leader first. Brokers that take no replicas get
// nothing; too few others are fault.Unavailable.
func Place(brokers []members.Broker, partitions, replicas int, seed uint64) ([][]partition.NodeID, error) {
	var fit []candidate
	for _, b := range brokers {
		if b.Takes() {
			fit = append(fit, candidate{id: b.ID, zone: b.Zone, leads: b.Leads, replicas: b.Replicas})
		}
	}
	if len(fit) < replicas {
		return nil, fault.Errorf(fault.Unavailable, "place %d replicas: %d brokers are live and take new replicas", replicas, len(fit))
	}
	placed := make([][]partition.NodeID, partitions)
	for i := range placed {
		placed[i] = placeOne(fit, replicas, mix(seed+uint64(i)))
	}
	return placed, nil
}

type candidate struct {
	id       partition.NodeID
	zone     string
	leads    int
	replicas int
}

func placeOne(fit []candidate, replicas int, seed uint64) []partition.NodeID {
	chosen := make([]*candidate, 0, replicas)
	for range replicas {
		var best *candidate
		for i := range fit {
			c := &fit[i]
			if has(chosen, c) {
				continue
			}
			if best == nil || before(c, best, chosen, seed) {
				best = c
			}
		}
		chosen = append(chosen, best)
	}
	leader := 0
	for i, c := range chosen {
		c.replicas++
		if l := chosen[leader]; c.leads < l.leads || (c.leads == l.leads && tie(c, seed) < tie(l, seed)) {
			leader = i
		}
	}
	chosen[leader].leads++
	chosen[0], chosen[leader] = chosen[leader], chosen[0]
	ids := make([]partition.NodeID, len(chosen))
	for i, c := range chosen {
		ids[i] = c.id
	}
	return ids
}

// before tells whether a is the better next replica than b.
func before(a, b *candidate, chosen []*candidate, seed uint64) bool {
	if za, zb := inZone(chosen, a.zone), inZone(chosen, b.zone); za != zb {
		return za < zb
	}
	if a.replicas != b.replicas {
		return a.replicas < b.replicas
	}
	return tie(a, seed) < tie(b, seed)
}

func has(chosen []*candidate, c *candidate) bool {
	for _, other := range chosen {
		if other == c {
			return true
		}
	}
	return false
}

func inZone(chosen []*candidate, zone string) int {
	n := 0
	for _, c := range chosen {
		if c.zone == zone {
			n++
		}
	}
	return n
}

func tie(c *candidate, seed uint64) uint64 { return mix(seed ^ uint64(c.id)) }

// mix is the finaliser of SplitMix64: every bit of the input changes every bit of the output with even odds.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
