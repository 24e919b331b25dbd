package api

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
)

// Limits of a report.
const (
	suspectsMax = 1000
	lostMax     = 100_000
	disksMax    = 100
	// reasonBytesMax of why a replica is lost; more is cut.
	reasonBytesMax = 200
)

// Report takes in what a broker says.
func (s *Server) Report(_ context.Context, in *coordinatorv1.ReportRequest) (*coordinatorv1.ReportResponse, error) {
	v, err := s.catalog.View()
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	report, err := readReport(in)
	if err != nil {
		return nil, err
	}
	incarnation, live := members.Incarnation(v.Brokers[report.From.Broker])
	if live && incarnation > report.From.Incarnation {
		return nil, fault.Errorf(fault.Conflict, "broker %d lives in incarnation %d: the report is of %d", report.From.Broker, incarnation, report.From.Incarnation)
	}
	// One that is not registered yet counts as soon as it is.
	s.reports.Take(report, s.clock.Now())
	out := &coordinatorv1.ReportResponse{}
	for _, b := range members.Of(v, nil) {
		if b.ID == report.From.Broker {
			out.Leads, out.Replicas = uint32(b.Leads), uint32(b.Replicas) //nolint:gosec // counts.
		}
	}
	return out, nil
}

func readReport(in *coordinatorv1.ReportRequest) (reports.Report, error) {
	report := reports.Report{From: process(in), Draining: in.GetDraining()}
	if report.From.Broker == 0 || report.From.Incarnation == 0 {
		return report, fault.Errorf(fault.Invalid, "broker and incarnation must be named")
	}
	for _, list := range []struct {
		field     string
		have, max int
	}{{"suspects", len(in.GetSuspects()), suspectsMax}, {"lost", len(in.GetLost()), lostMax}, {"disks", len(in.GetDisks()), disksMax}} {
		if list.have > list.max {
			return report, fault.Errorf(fault.Invalid, "%s: %d are more than %d", list.field, list.have, list.max)
		}
	}
	for _, suspect := range in.GetSuspects() {
		report.Suspects = append(report.Suspects, process(suspect))
	}
	for _, lost := range in.GetLost() {
		topic, err := partition.ParseUUID(lost.GetTopic())
		if err != nil {
			return report, fault.Errorf(fault.Invalid, "lost.topic: %w", err)
		}
		replica, err := partition.ParseUUID(lost.GetReplica())
		if err != nil {
			return report, fault.Errorf(fault.Invalid, "lost.replica: %w", err)
		}
		report.Lost = append(report.Lost, reports.Lost{
			Partition: partition.ID{Topic: topic, Index: partition.Index(lost.GetPartition())}, Replica: replica,
			Reason: lost.GetReason()[:min(len(lost.GetReason()), reasonBytesMax)],
		})
	}
	for _, disk := range in.GetDisks() {
		id, err := partition.ParseUUID(disk.GetDisk())
		if err != nil {
			return report, fault.Errorf(fault.Invalid, "disks.disk: %w", err)
		}
		report.Disks = append(report.Disks, reports.Disk{ID: id, State: disk.GetState(), Free: disk.GetFreeBytes(), Total: disk.GetTotalBytes()})
	}
	return report, nil
}

func process(from interface {
	GetBroker() uint64
	GetIncarnation() uint64
},
) reports.Process {
	return reports.Process{Broker: partition.NodeID(from.GetBroker()), Incarnation: partition.Incarnation(from.GetIncarnation())}
}
