package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/seedqueue/sq/proto/batch"
)

// Printer writes what is found.
type Printer struct {
	Out  io.Writer
	JSON bool
}

// object writes a value as one line of JSON.
func (p Printer) object(v any) error {
	if err := json.NewEncoder(p.Out).Encode(v); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func (p Printer) line(format string, args ...any) error {
	if _, err := fmt.Fprintf(p.Out, format+"\n", args...); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// field is a named value; a list of them is an object with its order kept.
type field struct {
	key   string
	value any
}

type fields []field

// MarshalJSON implements json.Marshaler.
func (f fields) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, one := range f {
		value, err := json.Marshal(one.value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", one.key, err)
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, one.key), ':'), value...)
	}
	return append(out, '}'), nil
}

// text shows the fields on one line.
func (f fields) text() string {
	parts := make([]string, len(f))
	for i, one := range f {
		value := ""
		switch v := one.value.(type) {
		case string:
			value = v
		default:
			data, err := json.Marshal(v)
			if err != nil {
				data = []byte(err.Error())
			}
			value = string(data)
		}
		parts[i] = one.key + "=" + value
	}
	return strings.Join(parts, " ")
}

// timeText shows microseconds since 1970.
func timeText(micros int64) string { return batch.Time(micros).Format("2006-01-02T15:04:05.000000Z") }

func hex(n uint64) string { return fmt.Sprintf("%#016x", n) }
