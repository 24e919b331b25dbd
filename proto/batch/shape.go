package batch

// shape is how long each column is: what the exact size of a message depends on.
type shape struct {
	n, values, keys, headers, headerKeys, headerValues int // entries; bytes; keys is -1 without the column
	valueNulls, keyNulls, headerNulls                  bool
	headerColumn, unequal, deliverAt, priorities       bool
}

// shape gives the lengths as they are.
func (b *Builder) shape() shape {
	s := shape{
		n: b.n, values: len(b.values.data), keys: -1, headers: b.headers,
		headerKeys: len(b.headerKeys.data), headerValues: len(b.headerVals.data),
		valueNulls: len(b.values.nulls) > 0, keyNulls: len(b.keys.nulls) > 0, headerNulls: len(b.headerVals.nulls) > 0,
		headerColumn: len(b.headerEnds) > 0, unequal: b.unequal,
		deliverAt: len(b.deliverAt) > 0, priorities: len(b.priorities) > 0,
	}
	if len(b.keys.ends) > 0 {
		s.keys = len(b.keys.data)
	}
	return s
}

// with gives the lengths after one more record.
func (s shape) with(b *Builder, r *Record) shape {
	s.valueNulls = s.valueNulls || r.Value == nil
	s.values += len(r.Value)
	if r.Key != nil {
		if s.keys < 0 {
			s.keys, s.keyNulls = 0, s.n > 0
		}
		s.keys += len(r.Key)
	} else if s.keys >= 0 {
		s.keyNulls = true
	}
	s.headerColumn = s.headerColumn || len(r.Headers) > 0
	s.headers += len(r.Headers)
	for i := range r.Headers {
		s.headerKeys += len(r.Headers[i].Key)
		s.headerValues += len(r.Headers[i].Value)
		s.headerNulls = s.headerNulls || r.Headers[i].Value == nil
	}
	s.unequal = s.unequal || s.n > 0 && r.Timestamp != b.first
	s.deliverAt = s.deliverAt || r.DeliverAt != 0
	s.priorities = s.priorities || r.Priority != 0
	s.n++
	return s
}

// raw gives rawSize: root pointer, Records struct and columns, each padded to a word.
func (s shape) raw() int {
	size := emptyRawBytes + pad(4*s.n) + pad(s.values)
	if s.valueNulls {
		size += pad((s.n + 7) / 8)
	}
	if s.keys >= 0 {
		size += pad(4*s.n) + pad(s.keys)
		if s.keyNulls {
			size += pad((s.n + 7) / 8)
		}
	}
	if s.unequal {
		size += 8 * s.n
	}
	if s.headerColumn {
		size += pad(4*s.n) + 2*pad(4*s.headers) + pad(s.headerKeys) + pad(s.headerValues)
		if s.headerNulls {
			size += pad((s.headers + 7) / 8)
		}
	}
	return size
}

// routing gives the bytes of the routing columns that records ask for.
func (s shape) routing() int {
	size := 0
	if s.deliverAt {
		size += 8 * s.n
	}
	if s.priorities {
		size += pad(s.n)
	}
	return size
}

// size gives the bytes of the whole message without compression.
func (s shape) size() int { return MinBytes + s.raw() - pointerBytes + s.routing() }

func pad(n int) int { return (n + 7) &^ 7 }
