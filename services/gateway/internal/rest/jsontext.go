package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/seedqueue/sq/libs/fault"
)

// publishPath and recordPath are where a NewRecord's json member lies in a document; "" stands for the elements of a list.
//
//nolint:gochecknoglobals // constant tables: Go has no constant slices.
var (
	publishPath = []string{"records", "", "json"}
	recordPath  = []string{"json"}
)

var errJSON = errors.New("it is not JSON")

// prepareJSON checks that data is UTF-8 and not nested deeper than depthMax, and gives it back with each member at path renamed to "text",
// its value as a string of the very text that stood there. So a `json` value is stored byte for byte: protobuf's own Value would turn
// 9007199254740993 into a float. A nil path changes nothing. What is not JSON may pass: the decoder behind tells it better. The error is
// fault.Invalid.
func prepareJSON(data []byte, path []string, depthMax int) ([]byte, error) {
	if !utf8.Valid(data) {
		return nil, fault.Errorf(fault.Invalid, "read JSON: it is not UTF-8")
	}
	s := scanner{data: data, path: path, depthMax: depthMax}
	err := s.value(0, 0)
	if tooDeep, ok := errors.AsType[*fault.Error](err); ok {
		return nil, tooDeep
	}
	if err == nil && s.more() { // the decoder behind stops at the value's end
		return nil, fault.Errorf(fault.Invalid, "read JSON: there is more behind the value, at byte %d", s.at)
	}
	if err != nil || len(s.out) == 0 {
		return data, nil //nolint:nilerr // the decoder behind says what is wrong, with its place.
	}
	return append(s.out, data[s.copied:]...), nil
}

// scanner walks over one JSON value.
type scanner struct {
	data     []byte
	at       int
	path     []string
	depthMax int
	out      []byte // the rewritten text up to copied
	copied   int
}

func (s *scanner) space() byte {
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// more tells whether anything but space is left.
func (s *scanner) more() bool {
	s.space()
	return s.at < len(s.data)
}

// value walks over a value; the first matched elements of path lead to it (-1 = it is on another way).
func (s *scanner) value(depth, matched int) error {
	if depth > s.depthMax {
		return fault.Errorf(fault.Invalid, "read JSON: it is nested deeper than %d", s.depthMax)
	}
	switch s.space() {
	case '{':
		return s.members(depth, matched, '}')
	case '[':
		return s.members(depth, matched, ']')
	case '"':
		return s.text()
	case 0:
		return errJSON
	default:
		from := s.at
		for s.at < len(s.data) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(s.data[s.at])) {
			s.at++
		}
		if s.at == from {
			return errJSON
		}
		return nil
	}
}

// members walks over an object or a list.
func (s *scanner) members(depth, matched int, end byte) error {
	s.at++
	for first := true; ; first = false {
		switch c := s.space(); {
		case c == end:
			s.at++
			return nil
		case first:
		case c != ',':
			return errJSON
		default:
			s.at++
			s.space()
		}
		below, keyFrom, err := s.key(matched, end)
		if err != nil {
			return err
		}
		s.space()
		valueFrom := s.at
		if err := s.value(depth+1, below); err != nil {
			return err
		}
		if below == len(s.path) && below > 0 {
			if err := s.replace(keyFrom, valueFrom); err != nil {
				return err
			}
		}
	}
}

// key walks over a member's name and colon, where end says that it has one, and tells how much of path leads to its value.
func (s *scanner) key(matched int, end byte) (below, from int, err error) {
	on := matched >= 0 && matched < len(s.path)
	from = s.at
	if end == ']' {
		if on && s.path[matched] == "" {
			return matched + 1, from, nil
		}
		return -1, from, nil
	}
	if s.space() != '"' {
		return 0, 0, errJSON
	}
	if err := s.text(); err != nil {
		return 0, 0, err
	}
	below = -1
	var name string
	if on && json.Unmarshal(s.data[from:s.at], &name) == nil && name == s.path[matched] {
		below = matched + 1
	}
	if s.space() != ':' {
		return 0, 0, errJSON
	}
	s.at++
	return below, from, nil
}

// text walks over a string.
func (s *scanner) text() error {
	for s.at++; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return nil
		}
	}
	return errJSON
}

// replace puts "text": "<the value's text>" in place of a member that ends at s.at.
func (s *scanner) replace(keyFrom, valueFrom int) error {
	raw := s.data[valueFrom:s.at]
	if !json.Valid(raw) {
		return errJSON
	}
	quoted, err := json.Marshal(string(raw))
	if err != nil {
		return errJSON
	}
	s.out = append(s.out, s.data[s.copied:keyFrom]...)
	s.out = append(append(s.out, `"text":`...), quoted...)
	s.copied = s.at
	return nil
}
