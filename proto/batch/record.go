package batch

// Record is one message. A nil key or value is null, which differs from an empty one.
type Record struct {
	Key, Value []byte
	Headers    []RecordHeader
	// Timestamp is the producer's time in microseconds since 1970.
	Timestamp int64
	// DeliverAt delays delivery to groups until then, microseconds since 1970; 0 = at once. A routing column.
	DeliverAt int64
	// Priority of delivery to groups; 0 is the default. A routing column.
	Priority uint8
}

// RecordHeader is a named value beside the record. Names need not be unique and keep their order; a nil value is null.
type RecordHeader struct {
	Key   string
	Value []byte
}
