package record

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
)

// Formats of a Writer. Any other is a template.
const (
	Lines = "lines"
	Raw   = "raw"
	JSON  = "json"
)

// Writer writes records.
type Writer struct {
	out   *bufio.Writer
	topic string
	write func(*Writer, *sq.Record)
	parts []part
	buf   []byte
}

// bufferBytes is large so that a fast reader costs few system calls.
const bufferBytes = 1 << 20

// NewWriter makes a writer of a format.
func NewWriter(out io.Writer, topic, format string) (*Writer, error) {
	w := &Writer{out: bufio.NewWriterSize(out, bufferBytes), topic: topic}
	switch format {
	case Lines:
		w.write = (*Writer).line
	case Raw:
		w.write = (*Writer).raw
	case JSON:
		w.write = (*Writer).json
	default:
		parts, err := parseTemplate(format)
		if err != nil {
			return nil, err
		}
		w.parts, w.write = parts, (*Writer).template
	}
	return w, nil
}

// Write writes a record; it may stay in the buffer until Flush. Errors of the stream come at the latest with Flush.
func (w *Writer) Write(r *sq.Record) { w.write(w, r) }

// Err gives the error that the stream had so far, without writing anything.
func (w *Writer) Err() error {
	_, err := w.out.Write(nil)
	return err
}

// Flush writes what is buffered.
func (w *Writer) Flush() error { return w.out.Flush() }

// Buffered tells whether there is something to flush.
func (w *Writer) Buffered() bool { return w.out.Buffered() > 0 }

func (w *Writer) line(r *sq.Record) {
	_, _ = w.out.Write(r.Value) // bufio keeps the error for Flush
	_ = w.out.WriteByte('\n')
}

func (w *Writer) raw(r *sq.Record) { _, _ = w.out.Write(r.Value) }

func (w *Writer) json(r *sq.Record) {
	w.buf = append(appendJSON(w.buf[:0], w.topic, r), '\n')
	_, _ = w.out.Write(w.buf)
}

// part is a piece of a template: text, or a field.
type part struct {
	text  string
	field string
}

// fields that a template may name.
const fields = "{topic} {partition} {offset} {time} {timestamp} {key} {value} {headers}"

// parseTemplate reads text with {field} in it; \n and \t stand for a line end and a tab, {{ and }} for braces.
func parseTemplate(text string) ([]part, error) {
	text = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(text)
	var parts []part
	plain := strings.Builder{}
	for i := 0; i < len(text); i++ {
		switch {
		case strings.HasPrefix(text[i:], "{{"), strings.HasPrefix(text[i:], "}}"):
			plain.WriteByte(text[i])
			i++
		case text[i] == '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 || !strings.Contains(fields, text[i:i+end+1]) {
				return nil, fmt.Errorf("template %q: at byte %d: legal are %s", text, i, fields)
			}
			parts = append(parts, part{text: plain.String()}, part{field: text[i+1 : i+end]})
			plain.Reset()
			i += end
		default:
			plain.WriteByte(text[i])
		}
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("%q is neither lines, raw, json nor a template that names a field: %s", text, fields)
	}
	return append(parts, part{text: plain.String()}), nil
}

func (w *Writer) template(r *sq.Record) {
	b := w.buf[:0]
	for _, p := range w.parts {
		b = append(b, p.text...)
		switch p.field {
		case "topic":
			b = append(b, w.topic...)
		case "partition":
			b = strconv.AppendInt(b, int64(r.Partition), 10)
		case "offset":
			b = strconv.AppendInt(b, r.Offset, 10)
		case "time":
			b = r.AppendTime().Local().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
		case "timestamp":
			b = r.Timestamp.Local().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
		case "key":
			b = append(b, r.Key...)
		case "value":
			b = append(b, r.Value...)
		case "headers":
			for i, h := range r.Headers {
				if i > 0 {
					b = append(b, ' ')
				}
				b = append(append(append(b, h.Key...), '='), h.Value...)
			}
		}
	}
	w.buf = append(b, '\n')
	_, _ = w.out.Write(w.buf)
}

func appendTime(b []byte, t time.Time) []byte { return t.UTC().AppendFormat(b, time.RFC3339Nano) }
