package rest

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seedqueue/sq/libs/fault"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
)

// fetch serves GET …/records.
func (h *Handler) fetch(w http.ResponseWriter, r *http.Request) {
	shape, ok := accepted(r)
	if !ok {
		httpProblem(http.StatusNotAcceptable, "NOT_ACCEPTABLE",
			"records are shown as application/json, application/x-ndjson, text/plain, application/octet-stream or text/event-stream").write(w)
		return
	}
	req, wait, err := fetchRequest(r, h.cfg.Limits.WaitMax)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Add("Vary", "Accept")
	if shape == formEvents {
		h.events(w, r, req)
		return
	}
	res, err := h.poll(r.Context(), req, wait)
	if err != nil {
		fail(w, err)
		return
	}
	body, err := shape.render(res)
	if err != nil {
		fail(w, err)
		return
	}
	header := w.Header()
	header.Set("Content-Type", shape.contentType())
	header.Set("Sq-Next-Cursor", res.GetNextCursor())
	header.Set("Sq-End-Reached", strconv.FormatBool(res.GetEndReached()))
	header.Set("Content-Length", strconv.Itoa(len(body)))
	h.answerBy(w, h.cfg.Limits.AnswerTime)
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// poll waits for records, in parts, so that a drain and a client that left are noticed soon.
func (h *Handler) poll(ctx context.Context, req *datav1.FetchRequest, wait time.Duration) (*datav1.FetchResponse, error) {
	until := h.cfg.Clock.Now().Add(wait)
	for {
		left := min(max(until.Sub(h.cfg.Clock.Now()), 0), h.cfg.Limits.WaitSlice)
		req.WaitTime = durationpb.New(left)
		res, err := h.data.Fetch(ctx, req)
		if err != nil {
			return nil, err //nolint:wrapcheck // a status, taken apart by problemOf.
		}
		if len(res.GetRecords()) > 0 || h.isDraining() || !h.cfg.Clock.Now().Before(until) {
			return res, nil
		}
		req.Cursor = res.GetNextCursor()
	}
}

func (h *Handler) isDraining() bool {
	select {
	case <-h.draining:
		return true
	default:
		return false
	}
}

func (f form) contentType() string {
	if f == formText {
		return "text/plain; charset=utf-8"
	}
	return string(f)
}

// render shows an answer.
func (f form) render(res *datav1.FetchResponse) ([]byte, error) {
	if f == formJSON {
		return marshal(res)
	}
	var out bytes.Buffer
	for _, record := range res.GetRecords() {
		switch f {
		case formLines:
			line, err := marshal(record)
			if err != nil {
				return nil, err
			}
			out.Write(line)
			out.WriteByte('\n')
		case formText:
			out.Write(value(record))
			out.WriteByte('\n')
		default:
			out.Write(value(record))
		}
	}
	return out.Bytes(), nil
}

func value(record *datav1.Record) []byte {
	if text, ok := record.GetValue().(*datav1.Record_Text); ok {
		return []byte(text.Text)
	}
	return record.GetData()
}

// marshal gives JSON as grpc-gateway does.
func marshal(message proto.Message) ([]byte, error) {
	data, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(message)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "show answer: %w", err)
	}
	return data, nil
}
