# What a tierer and a broker say to each other. The log decides: a tierer only proposes.
@0xd2f1a1a83a1f5b02;

using Go = import "/go.capnp";
using Batch = import "batch.capnp";
$Go.package("tiercapnp");
$Go.import("github.com/seedqueue/sq/proto/gen/capnp/tiercapnp");

struct SealedSegment @0xb1c2d3e4f5061720 {
  base @0 :UInt64;
  end @1 :UInt64;
  size @2 :UInt64;
  sha256 @3 :Data;
  epoch @4 :UInt64;            # of the last batch in it
  firstAppendTime @5 :Int64;
  lastAppendTime @6 :Int64;
}

# Which partitions that this broker leads have work for a tierer. Long poll: answers at once if there is any.
struct HarvestRequest @0xb2d3e4f506172831 {
  waitMillis @0 :UInt32;
  maxSegments @1 :UInt32;
}
struct HarvestReply @0xb3e4f50617283942 {
  partitions @0 :List(Harvest);
  struct Harvest @0xb4f5061728394a53 {
    topic @0 :Batch.Uuid;
    partition @1 :UInt32;
    epoch @2 :UInt64;
    tierEnd @3 :UInt64;
    exportedEnd @4 :UInt64;      # a manifest covers the log up to here
    exportedVersion @5 :UInt64;  # of the tier table that was exported last
    tableVersion @6 :UInt64;     # grows with every change of the table
    sealed @7 :List(SealedSegment);  # sealed, local, not tiered; from tierEnd on, contiguous
    collectable @8 :List(Text);      # keys of committed TierDrops whose notBefore has passed
  }
}

# Bytes [position, position + maxBytes) of the log part of a sealed segment; the body follows the reply.
struct ReadSealedRequest @0xb506172839404b64 {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  base @2 :UInt64;
  position @3 :UInt64;
  maxBytes @4 :UInt32;
}
struct ReadSealedReply @0xb6172839404b5c75 {
  size @0 :UInt64;
  index @1 :Data;     # filled when position = 0
  snapshot @2 :Data;  # filled when position = 0
}

struct TableRequest @0xb72839404b5c6d86 {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  since @2 :UInt64;   # tableVersion known; the reply is empty and quick if nothing is newer
  from @3 :UInt64;    # entries with end > from
  maxSegments @4 :UInt32;
}
struct TableReply @0xb839404b5c6d7e97 {
  epoch @0 :UInt64;
  tableVersion @1 :UInt64;
  tierEnd @2 :UInt64;
  logStart @3 :UInt64;
  segments @4 :List(Batch.Control.TierSegment);
  more @5 :Bool;
}

struct CommitTierRequest @0xb9404b5c6d7e8fa8 {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  segments @2 :List(Batch.Control.TierSegment);
}
struct CommitTierReply @0xba4b5c6d7e8f90b9 {
  tierEnd @0 :UInt64;
  tableVersion @1 :UInt64;
}

# A manifest that covers the table up to tableVersion is in the bucket: local data below tierEnd may go.
struct ExportedRequest @0xbb5c6d7e8f90a1ca {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  epoch @2 :UInt64;
  tableVersion @3 :UInt64;
  tierEnd @4 :UInt64;
  manifestSequence @5 :UInt64;
}

# The keys are gone from the bucket; the leader forgets them.
struct CollectedRequest @0xbc6d7e8f90a1b2db {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  keys @2 :List(Text);
}
struct Done @0xbd7e8f90a1b2c3ec {}

# An object in the bucket: the tier tables of some partitions as of one moment. It never changes. Of the manifests that have a partition
# the one with the highest epoch, table version and sequence, in this order, is valid. docs/formats/manifest.md has the rules.
struct Manifest @0xbe8f90a1b2c3d4ed {
  magic @0 :UInt32;          # "SQM1" read as little-endian
  formatVersion @1 :UInt16;  # 1
  flags @2 :UInt16;          # 0
  sequence @3 :UInt64;       # as in the object's key
  created @4 :Int64;         # microseconds since 1970, the tierer's clock
  crc @5 :UInt32;            # CRC32C of the whole message with this field zero; byte 24 of the data section
  cluster @6 :Batch.Uuid;
  tierer @7 :Text;
  partitions @8 :List(Partition);

  struct Partition @0xbf90a1b2c3d4e5fe {
    topic @0 :Batch.Uuid;
    partition @1 :UInt32;
    epoch @2 :UInt64;         # in which the leader gave the table
    tableVersion @3 :UInt64;
    logStart @4 :UInt64;
    tierEnd @5 :UInt64;
    segments @6 :List(Segment);  # by base, none overlapping
  }

  struct Segment @0xc0a1b2c3d4e5f60f {
    base @0 :UInt64;
    end @1 :UInt64;
    epoch @2 :UInt64;
    size @3 :UInt64;
    objectSize @4 :UInt64;
    firstAppendTime @5 :Int64;
    lastAppendTime @6 :Int64;
    sha256 @7 :Data;
    key @8 :Text;  # of the object; empty = it follows from the other fields
  }
}
