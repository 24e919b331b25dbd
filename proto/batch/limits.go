package batch

// Limits of the format. A reader refuses what is beyond them.
const (
	// HeaderBytes is the length of the fixed prefix: 8 of framing, 8 of root pointer, 160 of data section.
	HeaderBytes = framingBytes + pointerBytes + dataBytes
	// MinBytes is the smallest message: the header and an empty pointer section.
	MinBytes = HeaderBytes + batchPointers*pointerBytes
	// MaxBytes bounds a whole message.
	MaxBytes = 8 << 20
	// DefaultMaxBytes bounds a whole message where a topic does not say otherwise.
	DefaultMaxBytes = 1 << 20
	// MaxRawBytes bounds the columns of a batch before compression. It is absolute: one line repeated compresses 5,000 times.
	MaxRawBytes = 8 << 20
	// MaxRecords bounds the records of a batch.
	MaxRecords = 1 << 20
	// MaxKeyBytes bounds a record's key.
	MaxKeyBytes = 64 << 10
	// MaxHeaders bounds the headers of one record.
	MaxHeaders = 256
	// MaxHeaderKeyBytes bounds a header's key.
	MaxHeaderKeyBytes = 1 << 10
	// MaxOffset bounds the base offset, so that every offset fits an int64.
	MaxOffset = 1 << 62
	// MaxTimestamp bounds timestamps on both sides of 1970, in microseconds: about 73,000 years. Differences of two fit an int64.
	MaxTimestamp = 1 << 61
)

// The shape of the struct, fixed by batch.capnp.
const (
	framingBytes   = 8
	pointerBytes   = 8
	dataBytes      = 160
	batchPointers  = 5
	recordPointers = 13
	recordsBytes   = recordPointers * pointerBytes
	// emptyRawBytes is rawSize of no column at all: the root pointer and the Records struct.
	emptyRawBytes = pointerBytes + recordsBytes
	// rootPointer: a struct right behind the pointer, 20 data words, 5 pointers.
	rootPointer = uint64(dataBytes/8)<<32 | uint64(batchPointers)<<48
	// recordsRoot: a struct right behind the pointer, no data, 13 pointers.
	recordsRoot = uint64(recordPointers) << 48

	magic         = 0x31425153 // "SQB1"
	formatVersion = 1
)
