# The batch: the only bytes a producer makes, and the only bytes a log, a segment file and a bucket object hold.
#
# A Batch travels and rests as one standard Cap'n Proto stream message with exactly one segment whose root pointer and root struct come
# first, so that every word of the data section ("the header") sits at a fixed place. docs/formats/batch.md has the byte table.
# Ordinals, widths and meanings never change; new fields are appended and raise formatVersion.
@0xd1f1a1a83a1f5b01;

using Go = import "/go.capnp";
$Go.package("batchcapnp");
$Go.import("github.com/seedqueue/sq/proto/gen/capnp/batchcapnp");

struct Uuid @0xb0b2f61d7a0d3c11 {
  hi @0 :UInt64;
  lo @1 :UInt64;
}

enum Codec @0x9f1f40f7d5b2a3c2 {
  none @0;
  s2 @1;
  lz4 @2;
  zstd @3;
}

struct Batch @0xe4c7a2f3b6d85e03 {
  # --- the header: 20 words at fixed places; the comment behind a field is its byte offset in the data section ---
  magic @0 :UInt32;             # 0    "SQB1" read as little-endian
  formatVersion @1 :UInt16;     # 4    1
  flags @2 :UInt16;             # 6    bit 0: rewritten by compaction; all others zero
  # Stamp words: set by the partition's leader, zero on arrival (else the batch is invalid).
  segmentBase @3 :UInt64;       # 8    base offset of the segment this batch lies in; equal to baseOffset where a new file starts
  baseOffset @4 :UInt64;        # 16
  epoch @5 :UInt64;             # 24
  appendTime @6 :Int64;         # 32   microseconds since 1970, monotone in a partition
  chain @7 :UInt64;             # 40   rolling hash over all earlier headers of the partition
  commitHint @8 :UInt64;        # 48   the leader's persisted high watermark when it framed this
  partitionTag @9 :UInt64;      # 56   hash of (topic UUID, partition)
  # Producer words.
  recordCount @10 :UInt32;      # 64   0 in a control batch
  lastOffsetDelta @11 :UInt32;  # 68   the next offset is baseOffset + lastOffsetDelta + 1
  firstTimestamp @12 :Int64;    # 72   microseconds since 1970, the producer's clock
  maxTimestamp @13 :Int64;      # 80
  producerId @14 :UInt64;       # 88   0 = not idempotent
  producerEpoch @15 :UInt32;    # 96   reserved, 0
  codec @16 :Codec;             # 100  of the packed body; none for the other two
  # 102: which member of the body union is set
  baseSequence @17 :UInt64;     # 104  of the first record in the session (producer id, partition)
  dedupeKeyHi @18 :UInt64;      # 112  128-bit Idempotency-Key hash, 0 = none
  dedupeKeyLo @19 :UInt64;      # 120
  mapVersion @20 :UInt32;       # 128  version of the hash ranges the producer routed by, 0 = explicit partition
  rawSize @21 :UInt32;          # 132  bytes of the record columns before compression
  schemaId @22 :UInt32;         # 136  reserved, 0
  encryptionKeyId @23 :UInt32;  # 140  reserved, 0
  bodyCrc @24 :UInt32;          # 144  CRC32C over everything behind the header (pointer section to end of message)
  reserved0 @25 :UInt32;        # 148  0
  reserved1 @26 :UInt32;        # 152  0
  headerCrc @27 :UInt32;        # 156  CRC32C over framing, root pointer and header up to here

  body :union {
    records @28 :Records;
    packed @29 :Data;           # the segment of a single-segment message whose root is Records, compressed by codec
    control @30 :Control;
  }

  # Routing columns: optional, never compressed, one entry a record.
  offsetDeltas @31 :List(UInt32);  # absent = 0, 1, 2, …
  keyHashes @32 :List(UInt64);
  deliverAt @33 :List(Int64);      # microseconds since 1970, 0 = at once
  priorities @34 :List(UInt8);
}

# Columns. Ends are exclusive, cumulative and non-decreasing. An absent column means: no key, no header, all timestamps equal
# firstTimestamp, no nulls. A null differs from empty and has zero length. Bitmaps are little-endian by bit.
struct Records @0xa7d0c1e2f3948505 {
  valueEnds @0 :List(UInt32);
  values @1 :Data;
  valueNulls @2 :Data;
  keyEnds @3 :List(UInt32);
  keys @4 :Data;
  keyNulls @5 :Data;
  timestampDeltas @6 :List(Int64);  # microseconds to firstTimestamp
  headerEnds @7 :List(UInt32);      # how many headers the records up to and with this one have
  headerKeyEnds @8 :List(UInt32);
  headerKeys @9 :Data;
  headerValueEnds @10 :List(UInt32);
  headerValues @11 :Data;
  headerValueNulls @12 :Data;
}

struct Member @0xc3b1a0f9e8d7c606 {
  broker @0 :UInt64;
  replica @1 :Uuid;
}

# What a log says about itself. Control batches take one offset each and are skipped by readers of records.
struct Control @0x8e1d2c3b4a596807 {
  union {
    epochStart @0 :EpochStart;
    seal @1 :Seal;
    tierCommit @2 :TierCommit;
    tierDrop @3 :TierDrop;
    tierCollect @4 :TierCollect;
    trimTo @5 :TrimTo;
    producerExpire @6 :ProducerExpire;
    compact @7 :Compact;
    groupDelta @8 :Data;
    partitionClosed @9 :PartitionClosed;
    segmentFooter @10 :SegmentFooter;
    cut @11 :Void;   # starts a new segment where no other batch came to start it
  }

  # The first record of every epoch.
  struct EpochStart @0x91a2b3c4d5e6f708 {
    epoch @0 :UInt64;
    leader @1 :Member;
    incarnation @2 :UInt64;
    members @3 :List(Member);
    baseEpoch @4 :UInt64;
    baseMembers @5 :List(Member);
    startOffset @6 :UInt64;
    lossy @7 :Bool;
  }

  # The segment [base, end) is final and the same bytes everywhere.
  struct Seal @0x92b3c4d5e6f70819 {
    base @0 :UInt64;
    end @1 :UInt64;
    size @2 :UInt64;    # bytes of the log part
    sha256 @3 :Data;    # of the log part
  }

  struct TierSegment @0x93c4d5e6f708192a {
    base @0 :UInt64;
    end @1 :UInt64;
    epoch @2 :UInt64;         # of the last batch in it
    size @3 :UInt64;          # bytes of the log part
    objectSize @4 :UInt64;    # with the footer
    sha256 @5 :Data;
    key @6 :Text;
    firstAppendTime @7 :Int64;
    lastAppendTime @8 :Int64;
  }

  struct TierCommit @0x94d5e6f708192a3b { segments @0 :List(TierSegment); }
  struct TierDrop @0x95e6f708192a3b4c { keys @0 :List(Text); notBefore @1 :Int64; }
  struct TierCollect @0x96f708192a3b4c5d { keys @0 :List(Text); }
  struct TrimTo @0x9708192a3b4c5d6e { offset @0 :UInt64; }
  struct ProducerExpire @0x98192a3b4c5d6e7f { producerIds @0 :List(UInt64); }
  struct Compact @0x992a3b4c5d6e7f80 { base @0 :UInt64; end @1 :UInt64; size @2 :UInt64; sha256 @3 :Data; }
  struct PartitionClosed @0x9a3b4c5d6e7f8091 { children @0 :List(UInt32); }

  # The last message of a bucket object, behind the log part. Its baseOffset is the segment's end.
  struct SegmentFooter @0x9b4c5d6e7f8091a2 {
    base @0 :UInt64;
    end @1 :UInt64;
    size @2 :UInt64;
    sha256 @3 :Data;
    index @4 :Data;      # the segment's index, as docs/formats/segment.md has it
    snapshot @5 :Data;   # the partition's state at end (a Snapshot message)
    blockBytes @6 :UInt32;
    blockCrcs @7 :List(UInt32);
  }
}

# State that is a fold over the log, as of `end`. A file beside the segment and a part of the footer.
struct Snapshot @0xf5e4d3c2b1a09f10 {
  formatVersion @0 :UInt16;
  end @1 :UInt64;
  chain @2 :UInt64;
  logStart @3 :UInt64;
  epochs @4 :List(EpochEntry);
  producers @5 :List(Producer);
  tier @6 :List(Control.TierSegment);
  tierEnd @7 :UInt64;
  collected @8 :List(Text);
  dedupeKeys @9 :List(DedupeKey);
  lastAppendTime @10 :Int64;
  sealed @11 :List(Control.Seal);  # sealed and not yet tiered, from tierEnd on
  dropped @12 :List(Dropped);      # named by a TierDrop and not yet collected

  # A key in the bucket that no manifest names any more; it may be deleted from notBefore (microseconds since 1970) on.
  struct Dropped @0xa1b2837465f6e515 { key @0 :Text; notBefore @1 :Int64; }

  struct EpochEntry @0xd4c3b2a190807f11 { epoch @0 :UInt64; start @1 :UInt64; }
  struct Producer @0xc4b3a29180706f12 {
    id @0 :UInt64;
    nextSequence @1 :UInt64;
    lastAppendTime @2 :Int64;
    batches @3 :List(Remembered);
  }
  struct Remembered @0xb4a392817060f513 {
    baseSequence @0 :UInt64;
    count @1 :UInt32;
    bodyCrc @2 :UInt32;
    baseOffset @3 :UInt64;
  }
  struct DedupeKey @0xa493827160f5e414 {
    hi @0 :UInt64;
    lo @1 :UInt64;
    baseOffset @2 :UInt64;
    appendTime @3 :Int64;
    count @4 :UInt32;
    bodyCrc @5 :UInt32;
  }
}
