package records

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
)

// fromNew gives a record as it is stored. Nothing is copied.
func fromNew(in *datav1.NewRecord, now time.Time) (batch.Record, error) {
	rec := batch.Record{Timestamp: batch.Micros(now)}
	if in == nil {
		return rec, fault.Errorf(fault.Invalid, "it is null")
	}
	switch key := in.GetKeyKind().(type) {
	case *datav1.NewRecord_Key:
		rec.Key = []byte(key.Key)
	case *datav1.NewRecord_KeyData:
		rec.Key = present(key.KeyData)
	}
	switch value := in.GetValue().(type) {
	case *datav1.NewRecord_Text:
		rec.Value = []byte(value.Text)
	case *datav1.NewRecord_Data:
		rec.Value = present(value.Data)
	case *datav1.NewRecord_Json:
		text, err := json.Marshal(value.Json.AsInterface())
		if err != nil {
			return rec, fault.Errorf(fault.Invalid, "json: %w", err)
		}
		rec.Value = text
	}
	for i, header := range in.GetHeaders() {
		if header.GetName() == "" {
			return rec, fault.Errorf(fault.Invalid, "headers[%d]: it has no name", i)
		}
		out := batch.RecordHeader{Key: header.GetName()}
		switch value := header.GetValue().(type) {
		case *datav1.Header_Text:
			out.Value = []byte(value.Text)
		case *datav1.Header_Data:
			out.Value = present(value.Data)
		}
		rec.Headers = append(rec.Headers, out)
	}
	if at := in.GetTimestamp(); at != nil {
		if err := at.CheckValid(); err != nil {
			return rec, fault.Errorf(fault.Invalid, "timestamp: %w", err)
		}
		rec.Timestamp = batch.Micros(at.AsTime())
	}
	return rec, nil
}

// present makes an empty value of a missing one: it was set, so it is not null.
func present(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// toRecord gives a stored record as the API shows it. Everything is copied.
func toRecord(rec *batch.Record, index partition.Index, offset uint64, appendTime int64) *datav1.Record {
	out := &datav1.Record{
		Partition: int32(index), Offset: int64(offset), Timestamp: timestamp(rec.Timestamp), AppendTime: timestamp(appendTime),
	}
	switch {
	case rec.Key == nil:
	case utf8.Valid(rec.Key):
		out.KeyKind = &datav1.Record_Key{Key: string(rec.Key)}
	default:
		out.KeyKind = &datav1.Record_KeyData{KeyData: append([]byte(nil), rec.Key...)}
	}
	switch {
	case rec.Value == nil:
	case utf8.Valid(rec.Value):
		out.Value = &datav1.Record_Text{Text: string(rec.Value)}
	default:
		out.Value = &datav1.Record_Data{Data: append([]byte(nil), rec.Value...)}
	}
	for _, header := range rec.Headers {
		h := &datav1.Header{Name: strings.ToValidUTF8(header.Key, "\uFFFD")}
		switch {
		case header.Value == nil:
		case utf8.Valid(header.Value):
			h.Value = &datav1.Header_Text{Text: string(header.Value)}
		default:
			h.Value = &datav1.Header_Data{Data: append([]byte(nil), header.Value...)}
		}
		out.Headers = append(out.Headers, h)
	}
	return out
}

// timestamp leaves out what protobuf cannot hold: years beyond 1 to 9999.
func timestamp(micros int64) *timestamppb.Timestamp {
	at := timestamppb.New(batch.Time(micros))
	if at.CheckValid() != nil {
		return nil
	}
	return at
}

// sizeOf is what a record counts against max_bytes.
func sizeOf(rec *batch.Record) int {
	size := len(rec.Key) + len(rec.Value)
	for _, header := range rec.Headers {
		size += len(header.Key) + len(header.Value)
	}
	return size
}
