package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seedqueue/sq/libs/fault/faultwire"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
)

const (
	// topicsMax bounds the topics that are looked at one by one.
	topicsMax = 200
	// namesMax bounds the names in a sentence.
	namesMax = 5
	// recentMax bounds the partitions whose newest record is read.
	recentMax = 8
)

// cluster looks at the control API and at the members; false if it does not answer.
func (d *doctor) cluster(ctx context.Context) bool {
	ctx, cancel := within(ctx)
	defer cancel()
	client := controlv1.NewClusterServiceClient(d.cfg.Control)
	c, err := client.GetCluster(ctx, &controlv1.GetClusterRequest{})
	if err != nil {
		d.add("control port", Fail, fmt.Sprintf("%s does not answer: %v", d.cfg.API, faultwire.FromGRPC(err)),
			"Start SQ with 'sq dev', or name a gateway's control address with --api or SQ_API. A gateway that runs needs a coordinator to answer.")
		return false
	}
	d.add("control port", OK, fmt.Sprintf("%s answers for cluster %s", d.cfg.API, c.GetClusterId()), "")
	if c.GetCoordinator() == "" {
		d.add("coordinator", Fail, "no coordinator is active: topics cannot be made or changed, and a leader that is lost is not replaced",
			"Start 'sq-coordinator', or see its log.")
	} else {
		d.add("coordinator", OK, c.GetCoordinator()+" is active", "")
	}
	if brokers, err := client.ListBrokers(ctx, &controlv1.ListBrokersRequest{}); err == nil {
		d.brokers(brokers.GetBrokers())
	}
	switch n := c.GetPartitionsWithoutLeader(); {
	case n > 0:
		d.add("leaders", Fail, fmt.Sprintf("%d of %d partitions have no leader: they take and give no records", n, c.GetPartitions()),
			"Start the brokers that hold them again; see 'sq topic describe'. A new leader is there in a few seconds.")
	default:
		d.add("leaders", OK, fmt.Sprintf("all %d partitions have a leader", c.GetPartitions()), "")
	}
	if c.GetTierers() == 0 {
		d.add("tierers", Warn, "no tierer is live: nothing moves to the bucket, and what is only there cannot be read", "Start 'sq-tierer', or see its log and /readyz.")
	} else {
		d.add("tierers", OK, fmt.Sprintf("%d live", c.GetTierers()), "")
	}
	return true
}

func (d *doctor) brokers(all []*controlv1.Broker) {
	var live int
	var gone, other, bad []string
	for _, b := range all {
		for _, k := range b.GetDisks() {
			if k.GetState() != "ok" && k.GetState() != "" {
				bad = append(bad, fmt.Sprintf("%d (%s)", b.GetId(), k.GetState()))
			}
		}
		switch {
		case !b.GetLive():
			gone = append(gone, fmt.Sprintf("%d (%d replicas)", b.GetId(), b.GetReplicas()))
		default:
			live++
			if b.GetSoftware() != d.cfg.Version {
				other = append(other, fmt.Sprintf("%d runs %s", b.GetId(), b.GetSoftware()))
			}
		}
	}
	switch {
	case live == 0:
		d.add("brokers", Fail, fmt.Sprintf("none of %d is live", len(all)), "Start 'sq-broker', or see its log: it waits for etcd and refuses a data directory of another cluster.")
	case len(gone) > 0:
		d.add("brokers", Warn, fmt.Sprintf("%d of %d are live; not live: %s", live, len(all), some(gone)), "Start them again with their data directories.")
	default:
		d.add("brokers", OK, fmt.Sprintf("all %d are live", live), "")
	}
	if len(bad) > 0 {
		d.add("disks", Fail, "disks of brokers are not well: "+some(bad),
			"See 'sq cluster brokers' and the brokers' logs and docs/operations/disks.md: a full one needs room, a retired one another disk.")
	}
	if len(other) > 0 {
		d.add("version", Warn, fmt.Sprintf("this command is %s; broker %s", d.cfg.Version, some(other)), "Use the same version of both, the newer one.")
	}
}

// some joins a few of many.
func some(all []string) string {
	if len(all) > namesMax {
		return strings.Join(all[:namesMax], ", ") + fmt.Sprintf(" and %d more", len(all)-namesMax)
	}
	return strings.Join(all, ", ")
}

// survey is what the topics say.
type survey struct {
	topics  int
	silent  []string // partitions whose leader does not answer or is not active
	relaxed []string // topics whose own setting is weaker
	damaged []string // partitions with ranges that cannot be read
	weaker  []string // partitions whose acks are weaker than their topic's setting
	future  time.Duration
	looked  int // newest records that were read
}

// topics looks at each topic: its leaders, and what an ack means.
func (d *doctor) topics(ctx context.Context) {
	var s survey
	more, err := d.eachTopic(ctx, func(t *controlv1.Topic) { d.topic(ctx, &s, t) })
	if err != nil {
		d.add("topics", Warn, fmt.Sprintf("the topics cannot be looked at: %v", err), "Try again in a moment.")
		return
	}
	if len(s.silent) > 0 {
		d.add("partitions", Fail, "not served: "+some(s.silent), "See 'sq topic describe' for each; its broker's log says why.")
	} else {
		text := fmt.Sprintf("all of %d topics are served", s.topics)
		if more {
			text = fmt.Sprintf("all of the first %d topics are served", s.topics)
		}
		d.add("partitions", OK, text, "")
	}
	if len(s.damaged) > 0 {
		d.add("damage", Fail, "some records cannot be read: "+some(s.damaged), "The broker's log names file and offsets; 'sq inspect verify DIR' shows all of them. "+
			"Replace a disk that reports errors. See docs/operations/disks.md.")
	}
	switch {
	case len(s.weaker) > 0:
		d.add("durability", Warn, "acks are weaker than the topics ask for: "+some(s.weaker),
			"A power cut can lose acknowledged records. Start the brokers with --sync-policy every-batch.")
	case len(s.relaxed) > 0:
		d.add("durability", Warn, "topics with durability relaxed: "+some(s.relaxed),
			"A power cut can lose acknowledged records. If that is not meant: 'sq topic alter NAME --durability quorum'.")
	default:
		d.add("durability", OK, "acks mean fsynced by a majority", "")
	}
	if s.looked > 0 {
		d.appendTimes(&s)
	}
}

// appendTimes compares the newest records' times with the local clock. Records of yesterday prove nothing, those of tomorrow do.
func (d *doctor) appendTimes(s *survey) {
	if s.future < skewMax {
		return
	}
	d.add("clock", Warn, fmt.Sprintf("the newest record was appended %v from now: a broker's clock is ahead, or this one is behind", s.future.Round(time.Second)),
		"Set both by NTP: retention and reading from a time go by the brokers' clocks.")
}

// eachTopic visits the topics of all namespaces, topicsMax at most; more says that there are others.
func (d *doctor) eachTopic(ctx context.Context, visit func(*controlv1.Topic)) (more bool, err error) {
	listing, cancel := within(ctx)
	defer cancel()
	spaces, err := controlv1.NewNamespaceServiceClient(d.cfg.Control).ListNamespaces(listing, &controlv1.ListNamespacesRequest{PageSize: topicsMax})
	if err != nil {
		return false, err //nolint:wrapcheck // the check says what was attempted.
	}
	client := controlv1.NewTopicServiceClient(d.cfg.Control)
	seen := 0
	for _, space := range spaces.GetNamespaces() {
		listing, cancel := within(ctx)
		defer cancel()
		page, err := client.ListTopics(listing, &controlv1.ListTopicsRequest{Namespace: space.GetNamespace(), PageSize: topicsMax})
		if err != nil {
			return false, err //nolint:wrapcheck // the check says what was attempted.
		}
		for _, t := range page.GetTopics() {
			if seen++; seen > topicsMax {
				return true, nil
			}
			visit(t)
		}
		more = more || page.GetNextPageToken() != ""
	}
	return more || spaces.GetNextPageToken() != "", nil
}

func (d *doctor) topic(ctx context.Context, s *survey, listed *controlv1.Topic) {
	ctx, cancel := within(ctx)
	defer cancel()
	name := listed.GetTopic()
	if space := listed.GetNamespace(); space != "" && space != "default" {
		name = space + "/" + name
	}
	s.topics++
	t, err := controlv1.NewTopicServiceClient(d.cfg.Control).GetTopic(ctx, &controlv1.GetTopicRequest{Namespace: listed.GetNamespace(), Topic: listed.GetTopic()})
	if err != nil {
		s.silent = append(s.silent, fmt.Sprintf("%s (%v)", name, faultwire.FromGRPC(err)))
		return
	}
	relaxed := t.GetDurability() == controlv1.Durability_DURABILITY_RELAXED
	if relaxed {
		s.relaxed = append(s.relaxed, name)
	}
	for _, p := range t.GetPartitionStates() {
		id := fmt.Sprintf("%s/%d", name, p.GetPartition())
		switch {
		case p.GetDamagedRanges() > 0:
			s.damaged = append(s.damaged, fmt.Sprintf("%s (%d ranges)", id, p.GetDamagedRanges()))
		}
		switch {
		case p.GetError() != "":
			s.silent = append(s.silent, fmt.Sprintf("%s (%s)", id, p.GetError()))
		case !p.GetActive():
			s.silent = append(s.silent, id+" (electing)")
		case !relaxed && p.GetDurability() != "fsync-quorum":
			s.weaker = append(s.weaker, fmt.Sprintf("%s (%s)", id, p.GetDurability()))
		}
		if p.GetHighWatermark() > p.GetLocalStart() && s.looked < recentMax {
			s.looked++
			d.newest(ctx, s, listed, p)
		}
	}
}

// newest looks at the append time of a partition's last record.
func (d *doctor) newest(ctx context.Context, s *survey, t *controlv1.Topic, p *controlv1.Partition) {
	index := p.GetPartition()
	page, err := datav1.NewDataServiceClient(d.cfg.Control).Fetch(ctx, &datav1.FetchRequest{
		Namespace: t.GetNamespace(), Topic: t.GetTopic(), Partition: &index, From: d.cfg.Now().Add(skewMax).UTC().Format(time.RFC3339), MaxRecords: 1,
	})
	if err != nil || len(page.GetRecords()) == 0 {
		return // nothing of the future is there
	}
	s.future = max(s.future, page.GetRecords()[0].GetAppendTime().AsTime().Sub(d.cfg.Now()))
}
