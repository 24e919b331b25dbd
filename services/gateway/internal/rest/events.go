package rest

import (
	"fmt"
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seedqueue/sq/libs/partition"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/cursor"
)

// reconnect is how long an EventSource waits before it comes back.
const reconnect = time.Second

// events serves records as they come, until the client goes or the gateway drains. A failure is an event of type error, behind which the
// client comes back to where it was.
func (h *Handler) events(w http.ResponseWriter, r *http.Request, req *datav1.FetchRequest) {
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		req.Cursor = last
	}
	req.WaitTime = nil
	res, err := h.data.Fetch(r.Context(), req) // what is wrong with the request is told as for every other
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", string(formEvents))
	w.WriteHeader(http.StatusOK)
	stream := &eventStream{handler: h, w: w, control: http.NewResponseController(w)}
	stream.printf("retry: %d\n\n", reconnect.Milliseconds())
	quiet := h.cfg.Clock.Now()
	for stream.err == nil && r.Context().Err() == nil && !h.isDraining() {
		if err := stream.records(res); err != nil {
			stream.printf("event: error\ndata: %s\n", problemOf(err, nil).json())
			stream.flush()
			return
		}
		if now := h.cfg.Clock.Now(); len(res.GetRecords()) > 0 {
			quiet = now
		} else if now.Sub(quiet) >= h.cfg.Limits.Heartbeat {
			stream.printf(": \n\n")
			quiet = now
		}
		stream.flush()
		req.Cursor = res.GetNextCursor()
		req.WaitTime = durationpb.New(min(h.cfg.Limits.WaitSlice, h.cfg.Limits.Heartbeat))
		if res, err = h.data.Fetch(r.Context(), req); err != nil {
			stream.printf("event: error\ndata: %s\n", problemOf(err, nil).json())
			stream.flush()
			return
		}
	}
}

// eventStream writes events until the client takes no more.
type eventStream struct {
	handler *Handler
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func (s *eventStream) printf(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format, args...)
	}
}

// flush sends what was written, and gives the client time to take it.
func (s *eventStream) flush() {
	if s.err == nil {
		s.handler.answerBy(s.w, s.handler.cfg.Limits.AnswerTime+s.handler.cfg.Limits.Heartbeat)
		s.err = s.control.Flush()
	}
}

// records writes an event a record. Its id is the cursor behind the record, so that nothing comes twice after a break. The cursor behind
// an answer is known, the ones between are made from the one before it.
func (s *eventStream) records(res *datav1.FetchResponse) error {
	sealer := s.handler.cfg.Sealer()
	after, err := sealer.Open(res.GetNextCursor())
	if err != nil {
		return err //nolint:wrapcheck // a fault.
	}
	at := after.Clone()
	rewind(&at, res.GetRecords())
	for i, record := range res.GetRecords() {
		if position := at.At(index(record)); position != nil {
			position.Offset = offset(record) + 1
		}
		id := res.GetNextCursor()
		if i < len(res.GetRecords())-1 {
			id = sealer.Seal(at)
		}
		data, err := marshal(record)
		if err != nil {
			return err
		}
		s.printf("id: %s\ndata: %s\n\n", id, data)
	}
	return nil
}

// rewind puts each position before its first record.
func rewind(at *cursor.Cursor, records []*datav1.Record) {
	for i := len(records) - 1; i >= 0; i-- {
		if position := at.At(index(records[i])); position != nil {
			position.Offset = offset(records[i])
		}
	}
}

func index(record *datav1.Record) partition.Index { return partition.Index(record.GetPartition()) }

func offset(record *datav1.Record) partition.Offset { return partition.Offset(record.GetOffset()) }
