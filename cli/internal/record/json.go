package record

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/seedqueue/sq/sdk/go/sq"
)

// appendJSON writes a record as an object.
func appendJSON(b []byte, topic string, r *sq.Record) []byte {
	b = appendText(append(b, `{"topic":`...), topic)
	b = strconv.AppendInt(append(b, `,"partition":`...), int64(r.Partition), 10)
	b = strconv.AppendInt(append(b, `,"offset":`...), r.Offset, 10)
	b = append(appendTime(append(b, `,"timestamp":"`...), r.Timestamp), '"')
	b = append(appendTime(append(b, `,"appendTime":"`...), r.AppendTime()), '"')
	if r.Key != nil {
		b = appendBytes(append(b, ','), "key", "keyData", r.Key)
	}
	b = appendBytes(append(b, ','), "value", "valueData", r.Value)
	if len(r.Headers) > 0 {
		b = append(b, `,"headers":[`...)
		for i, h := range r.Headers {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(append(b, `{"name":`...), h.Key)
			b = append(appendBytes(append(b, ','), "value", "data", h.Value), '}')
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// appendBytes writes a member: null, a string, or base64 under another name.
func appendBytes(b []byte, name, dataName string, value []byte) []byte {
	switch {
	case value == nil:
		return append(append(append(b, '"'), name...), `":null`...)
	case utf8.Valid(value):
		b = append(append(append(b, '"'), name...), `":`...)
		return appendText(b, value)
	default:
		b = append(append(append(b, '"'), dataName...), `":"`...)
		return append(base64.StdEncoding.AppendEncode(b, value), '"')
	}
}

const hexDigits = "0123456789abcdef"

// appendText writes a JSON string of valid UTF-8; what is not becomes the replacement character.
func appendText[T string | []byte](b []byte, text T) []byte {
	b = append(b, '"')
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < ' ' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(string(text[i:min(len(text), i+utf8.UTFMax)]))
			b = utf8.AppendRune(b, r)
			i += size - 1
		}
	}
	return append(b, '"')
}

// jsonRecord is a record as read. Members that SQ sets are read and not used.
type jsonRecord struct {
	Topic      any             `json:"topic"`
	Partition  any             `json:"partition"`
	Offset     any             `json:"offset"`
	AppendTime any             `json:"appendTime"`
	Timestamp  *time.Time      `json:"timestamp"`
	Key        *string         `json:"key"`
	KeyData    []byte          `json:"keyData"`
	Value      json.RawMessage `json:"value"`
	ValueData  []byte          `json:"valueData"`
	Headers    jsonHeaders     `json:"headers"`
}

// jsonHeaders are a list of {name, value} or an object of name: value.
type jsonHeaders []sq.Header

// UnmarshalJSON implements json.Unmarshaler.
func (h *jsonHeaders) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return h.object(data)
	}
	var list []struct {
		Name  *string `json:"name"`
		Value *string `json:"value"`
		Data  []byte  `json:"data"`
	}
	if err := strict(data, &list); err != nil {
		return err
	}
	for _, header := range list {
		if header.Name == nil {
			return errors.New("headers: a name is missing")
		}
		*h = append(*h, sq.Header{Key: *header.Name, Value: bytesOf(header.Value, header.Data)})
	}
	return nil
}

// object reads the members in their order.
func (h *jsonHeaders) object(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value *string
		if err := d.Decode(&value); err != nil {
			return err
		}
		*h = append(*h, sq.Header{Key: fmt.Sprint(name), Value: bytesOf(value, nil)})
	}
	return nil
}

func bytesOf(text *string, data []byte) []byte {
	switch {
	case text != nil:
		return append(make([]byte, 0, len(*text)), *text...)
	case data != nil:
		return data
	default:
		return nil
	}
}

// ReadJSON reads a record from an object. A value that is a string stands for its text, null for null, and any other for its JSON text.
func ReadJSON(line []byte) (sq.Record, error) {
	if !utf8.Valid(line) { // the decoder would put something else in its place
		return sq.Record{}, errors.New("not a record: the line is not UTF-8 (valueData and keyData hold bytes as base64)")
	}
	var in jsonRecord
	if err := strict(line, &in); err != nil {
		return sq.Record{}, fmt.Errorf("not a record: %w", err)
	}
	r := sq.Record{Key: bytesOf(in.Key, in.KeyData), Headers: in.Headers}
	if in.Timestamp != nil {
		r.Timestamp = *in.Timestamp
	}
	value := bytes.TrimSpace(in.Value)
	switch {
	case in.Key != nil && in.KeyData != nil:
		return sq.Record{}, errors.New("not a record: key and keyData are both set")
	case in.ValueData != nil && in.Value != nil:
		return sq.Record{}, errors.New("not a record: value and valueData are both set")
	case in.ValueData != nil:
		r.Value = in.ValueData
	case len(value) == 0 && in.Value == nil && !bytes.Contains(line, []byte(`"value"`)):
		return sq.Record{}, errors.New("not a record: value is missing (null is a value)")
	case len(value) == 0 || bytes.Equal(value, []byte("null")):
	case value[0] == '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return sq.Record{}, fmt.Errorf("not a record: value: %w", err)
		}
		r.Value = append(make([]byte, 0, len(text)), text...)
	default:
		r.Value = append([]byte(nil), value...)
	}
	return r, nil
}

// strict reads exactly one JSON value without unknown members.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more on the line")
	}
	return nil
}
