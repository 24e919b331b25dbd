package rest

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
)

const (
	recordKeyHeader    = "Sq-Key"
	recordHeaderPrefix = "Sq-Header-"
)

// publish serves POST …/records.
func (h *Handler) publish(w http.ResponseWriter, r *http.Request) {
	values, err := query(r, "partition")
	if err != nil {
		fail(w, err)
		return
	}
	req := &datav1.PublishRequest{Namespace: r.PathValue("namespace"), Topic: r.PathValue("topic")}
	if req.Partition, err = number(values, "partition"); err != nil {
		fail(w, err)
		return
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == string(formLines) {
		h.stream(w, r, req)
		return
	}
	h.one(w, r, req)
}

// one stores the body as one record.
func (h *Handler) one(w http.ResponseWriter, r *http.Request, req *datav1.PublishRequest) {
	data, release, err := h.body(w, r, h.cfg.Limits.RecordBytes)
	defer release()
	if err != nil {
		fail(w, err)
		return
	}
	record, err := recordOf(r.Header, data)
	if err != nil {
		fail(w, err)
		return
	}
	req.Records = []*datav1.NewRecord{record}
	res, err := h.data.Publish(withKey(r.Context(), r.Header.Get(keyHeader)), req)
	if err == nil && len(res.GetResults()) == 1 && res.GetResults()[0].GetError() != nil {
		err = resultFault(res.GetResults()[0].GetError())
	}
	if err != nil {
		fail(w, err)
		return
	}
	body, err := marshal(res)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", string(formJSON))
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// recordOf makes a record of a body and its HTTP headers.
func recordOf(header http.Header, data []byte) (*datav1.NewRecord, error) {
	record := &datav1.NewRecord{Value: &datav1.NewRecord_Data{Data: data}}
	switch keys := header.Values(recordKeyHeader); len(keys) {
	case 0:
	case 1:
		record.KeyKind = &datav1.NewRecord_KeyData{KeyData: []byte(keys[0])}
	default:
		return nil, fault.Errorf(fault.Invalid, "%s: it is given %d times", recordKeyHeader, len(keys))
	}
	names := []string{}
	for name := range header {
		if strings.HasPrefix(name, recordHeaderPrefix) && len(name) > len(recordHeaderPrefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names) // HTTP keeps no order of names
	for _, name := range names {
		for _, value := range header[name] {
			record.Headers = append(record.Headers, &datav1.Header{
				Name:  strings.ToLower(strings.TrimPrefix(name, recordHeaderPrefix)),
				Value: &datav1.Header_Data{Data: []byte(value)},
			})
		}
	}
	return record, nil
}

// resultFault is the failure of one record as the failure of a request.
func resultFault(e *datav1.PublishError) error {
	kind, _ := fault.KindOfReason(e.GetReason())
	return &fault.Error{Kind: kind, Op: e.GetMessage()}
}

// failed gives the first record of an answer that was not stored, and how many were.
func failed(res *datav1.PublishResponse, err error) (first, stored int, cause error) {
	if err != nil {
		return 0, 0, faultwire.FromStatus(status.Convert(err))
	}
	first = -1
	for i, result := range res.GetResults() {
		switch {
		case result.GetError() == nil:
			stored++
		case first < 0:
			first, cause = i, resultFault(result.GetError())
		}
	}
	return first, stored, cause
}

// request gives a copy of a request with other records.
func request(req *datav1.PublishRequest, records []*datav1.NewRecord) *datav1.PublishRequest {
	out := proto.CloneOf(req)
	out.Records = records
	return out
}
