package rest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/frame"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
)

// lineWait is how long a line waits for room in memory, which the lines before it take.
const lineWait = 5 * time.Second

// line is one line of a stream, or why there are no more.
type line struct {
	record *datav1.NewRecord
	size   int
	err    error // io.EOF at the end
}

// streamed counts what was stored.
type streamed struct {
	Records    string               `json:"records"`
	Partitions []*streamedPartition `json:"partitions"`
	Durability string               `json:"durability"`

	stored      int
	byPartition map[int32]*streamedPartition
}

type streamedPartition struct {
	Partition   int32  `json:"partition"`
	Records     string `json:"records"`
	FirstOffset string `json:"firstOffset,omitempty"`
	LastOffset  string `json:"lastOffset,omitempty"`

	records int
}

// stream stores the lines of a body in order, some at a time, until one fails.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, req *datav1.PublishRequest) {
	key := r.Header.Get(keyHeader)
	ctx, cancel := context.WithCancel(r.Context())
	lines := make(chan line, h.cfg.Limits.ChunkRecords)
	ended := make(chan struct{})
	var held atomic.Int64 // bytes of lines that were read and not stored yet
	go func() {
		defer close(ended)
		defer close(lines)
		h.readLines(ctx, w, r.Body, &held, lines)
	}()
	sum := &streamed{byPartition: map[int32]*streamedPartition{}}
	problem, whole := h.store(ctx, w, req, key, lines, &held, sum)
	cancel()
	if !whole {
		h.bodyBy(w, time.Nanosecond) // readLines may be waiting for a line
	}
	<-ended
	h.cfg.Gate.Bodies().Release(int(held.Load()))
	h.bodyEnds(w, whole)
	if problem != nil {
		problem.write(w)
		return
	}
	sum.write(w)
}

// store stores lines until they end or one fails. whole says that the body was read to its end.
func (h *Handler) store(
	ctx context.Context, w http.ResponseWriter, req *datav1.PublishRequest, key string, lines <-chan line, held *atomic.Int64, sum *streamed,
) (_ *problem, whole bool) {
	for number, chunks := 1, 0; ; chunks++ {
		records, size, end := h.chunk(lines, key == "")
		if len(records) > 0 {
			chunkKey := key
			if key != "" {
				chunkKey = key + "/" + strconv.Itoa(chunks)
			}
			h.answerBy(w, 2*h.cfg.Limits.BodyTime)
			res, err := h.data.Publish(withKey(ctx, chunkKey), request(req, records))
			held.Add(int64(-size))
			h.cfg.Gate.Bodies().Release(size)
			first, stored, cause := failed(res, err)
			sum.add(res, stored)
			if cause != nil {
				return problemOf(cause, sum.failedAt(number+first)), errors.Is(end, io.EOF)
			}
			number += len(records)
		}
		switch {
		case end == nil:
		case errors.Is(end, io.EOF):
			return nil, true
		default:
			return problemOf(end, sum.failedAt(number)), false
		}
	}
}

// readLines reads records until the body ends or one is bad.
func (h *Handler) readLines(ctx context.Context, w http.ResponseWriter, body io.Reader, held *atomic.Int64, lines chan<- line) {
	scan := bufio.NewScanner(body)
	scan.Buffer(make([]byte, 0, min(step, h.cfg.Limits.LineBytes)), h.cfg.Limits.LineBytes)
	for {
		h.bodyBy(w, h.cfg.Limits.BodyTime)
		next := line{err: io.EOF}
		if scan.Scan() && scan.Err() == nil { // with an error, it is a line that was cut
			text := bytes.TrimSpace(scan.Bytes())
			if len(text) == 0 {
				continue
			}
			next.size = len(text)
			if next.err = h.hold(ctx, held, next.size); next.err == nil {
				next.record, next.err = h.parse(text)
			}
		} else if err := scan.Err(); errors.Is(err, bufio.ErrTooLong) {
			next.err = fault.Errorf(fault.TooLarge, "a line is longer than %d bytes", h.cfg.Limits.LineBytes)
		} else if err != nil {
			next.err = fault.Errorf(fault.Invalid, "read request body: %w", err)
		}
		select {
		case lines <- next: // first: why a body broke off is worth more than that its client has gone
		default:
			select {
			case lines <- next:
			case <-ctx.Done():
				return
			}
		}
		if next.err != nil {
			return
		}
	}
}

// hold reserves a line. What is held by this stream is given back as it is stored.
func (h *Handler) hold(ctx context.Context, held *atomic.Int64, size int) error {
	ctx, cancel := context.WithTimeout(ctx, lineWait)
	defer cancel()
	if err := h.cfg.Gate.Bodies().Reserve(ctx, size); err != nil {
		return &fault.Error{Kind: fault.Overloaded, Op: "read request body", Err: frame.ErrOverBudget, RetryAfter: retryAfter}
	}
	held.Add(int64(size))
	return nil
}

func (h *Handler) parse(text []byte) (*datav1.NewRecord, error) {
	data, err := prepareJSON(text, recordPath, h.cfg.Limits.JSONDepth)
	if err != nil {
		return nil, err
	}
	record := &datav1.NewRecord{}
	if err := protojson.Unmarshal(data, record); err != nil {
		return nil, fault.Errorf(fault.Invalid, "read record: %w", err)
	}
	return record, nil
}

// chunk gathers lines to store at a time. With early it does not wait for long for one that is full; without, it depends on the lines
// alone, so that the same stream makes the same chunks.
func (h *Handler) chunk(lines <-chan line, early bool) (records []*datav1.NewRecord, size int, end error) {
	var timeout <-chan time.Time
	for len(records) < h.cfg.Limits.ChunkRecords && size < h.cfg.Limits.ChunkBytes {
		select {
		case next, ok := <-lines:
			if !ok {
				return records, size, fault.Errorf(fault.Canceled, "read request body: the client has gone")
			}
			if next.err != nil {
				return records, size, next.err
			}
			records = append(records, next.record)
			size += next.size
			if early && timeout == nil {
				timer := h.cfg.Clock.NewTimer(h.cfg.Limits.Linger)
				defer timer.Stop()
				timeout = timer.C()
			}
		case <-timeout:
			return records, size, nil
		}
	}
	return records, size, nil
}

// add counts an answer.
func (s *streamed) add(res *datav1.PublishResponse, stored int) {
	s.stored += stored
	if stored > 0 && (s.Durability == "" || weaker(res.GetDurability(), s.Durability)) {
		s.Durability = res.GetDurability()
	}
	for _, result := range res.GetResults() {
		if result.GetError() != nil {
			continue
		}
		p := s.byPartition[result.GetPartition()]
		if p == nil {
			p = &streamedPartition{Partition: result.GetPartition()}
			s.byPartition[p.Partition] = p
		}
		p.records++
		if result.Offset != nil {
			p.LastOffset = strconv.FormatInt(result.GetOffset(), 10)
			if p.FirstOffset == "" {
				p.FirstOffset = p.LastOffset
			}
		}
	}
}

// weaker compares durabilities by their names.
func weaker(a, b string) bool {
	order := []string{"none", "written-quorum", "fsync-quorum"}
	return slices.Index(order, a) < slices.Index(order, b)
}

// failedAt is what a client needs to go on: the line that was not stored, counted from 1 without empty ones, and how many were.
func (s *streamed) failedAt(number int) map[string]any {
	return map[string]any{"line": strconv.Itoa(number), "stored": strconv.Itoa(s.stored)}
}

func (s *streamed) write(w http.ResponseWriter) {
	s.Records = strconv.Itoa(s.stored)
	s.Partitions = []*streamedPartition{}
	for _, index := range slices.Sorted(maps.Keys(s.byPartition)) {
		p := s.byPartition[index]
		p.Records = strconv.Itoa(p.records)
		s.Partitions = append(s.Partitions, p)
	}
	w.Header().Set("Content-Type", string(formJSON))
	_ = json.NewEncoder(w).Encode(s) // a client that is gone needs no answer
}
