# The data plane. A connection carries Cap'n Proto stream messages and nothing else: a Request from the side that dialled, a Response
# with the same id from the other, in any order. A message whose bodyBytes is not zero is followed by that many bytes, which are whole
# Batch messages (ReadSealed: a raw part of a segment; Peer: the bodies of its messages). docs/formats/wire.md has the rules.
@0xd3f1a1a83a1f5b03;

using Go = import "/go.capnp";
using Batch = import "batch.capnp";
using Peer = import "peer.capnp";
using Tier = import "tier.capnp";
$Go.package("wirecapnp");
$Go.import("github.com/seedqueue/sq/proto/gen/capnp/wirecapnp");

struct Request @0xa101a1b2c3d4e501 {
  id @0 :UInt64;             # not 0, unique among the requests in flight on this connection
  timeoutMillis @1 :UInt32;  # what is left of the caller's deadline when this was sent; 0 = the server's default
  bodyBytes @2 :UInt32;
  traceIdHi @3 :UInt64;      # W3C trace context; 0,0 = none
  traceIdLo @4 :UInt64;
  spanId @5 :UInt64;
  traceFlags @6 :UInt8;
  union {
    hello @7 :Hello;
    ping @8 :Void;
    metadata @9 :MetadataRequest;
    publish @10 :PublishRequest;
    fetch @11 :FetchRequest;
    listOffsets @12 :ListOffsetsRequest;
    initProducer @13 :InitProducerRequest;
    seal @14 :SealRequest;              # gateway → leader
    trim @15 :TrimRequest;              # gateway → leader
    partitionState @16 :PartitionStateRequest;  # gateway, coordinator → leader
    harvest @17 :Tier.HarvestRequest;   # tierer → broker, and below
    readSealed @18 :Tier.ReadSealedRequest;
    tierTable @19 :Tier.TableRequest;
    commitTier @20 :Tier.CommitTierRequest;
    exported @21 :Tier.ExportedRequest;
    collected @22 :Tier.CollectedRequest;
    peer @23 :Peer.Frame;               # broker → broker
    positions @24 :Peer.PositionsRequest;  # coordinator → broker
  }
}

struct Response @0xa202b2c3d4e5f602 {
  id @0 :UInt64;             # 0 = not an answer: goAway, or an error that ends the connection
  bodyBytes @1 :UInt32;
  union {
    error @2 :Error;
    hello @3 :HelloReply;
    pong @4 :Void;
    metadata @5 :MetadataReply;
    publish @6 :PublishReply;
    fetch @7 :FetchReply;
    listOffsets @8 :ListOffsetsReply;
    initProducer @9 :InitProducerReply;
    seal @10 :SealReply;
    trim @11 :TrimReply;
    partitionState @12 :PartitionState;
    harvest @13 :Tier.HarvestReply;
    readSealed @14 :Tier.ReadSealedReply;
    tierTable @15 :Tier.TableReply;
    commitTier @16 :Tier.CommitTierReply;
    exported @17 :Tier.Done;
    collected @18 :Tier.Done;
    goAway @19 :GoAway;
    peer @20 :Void;
    positions @21 :Peer.PositionsReply;
  }
}

# The closed set of error kinds; libs/fault holds the table kind ↔ gRPC ↔ HTTP ↔ retryable.
enum ErrorKind @0xa303c3d4e5f60703 {
  internal @0;
  invalid @1;
  notFound @2;
  exists @3;
  conflict @4;             # the state does not allow it, or it changed meanwhile
  notLeader @5;
  staleEpoch @6;
  staleRouting @7;
  offsetTiered @8;         # below the local start: read from a tierer
  offsetTrimmed @9;        # below the log start
  offsetOutOfRange @10;    # above the high watermark
  tooLarge @11;
  overloaded @12;
  unavailable @13;         # definitely not done, try again
  outcomeUnknown @14;      # perhaps done
  deadlineExceeded @15;    # definitely not done
  canceled @16;
  unauthenticated @17;
  denied @18;
  unsupportedVersion @19;
  corrupt @20;
  diskFull @21;
  diskPoisoned @22;
  sequenceReused @23;
  outOfOrder @24;
  unknownProducer @25;
  diverged @26;
  wrongCluster @27;
  dataDirInUse @28;
}

struct Error @0xa404d4e5f6071804 {
  kind @0 :ErrorKind;
  text @1 :Text;
  retryAfterMillis @2 :UInt32;
  offset @3 :UInt64;       # offsetTrimmed: log start; offsetTiered: local start; offsetOutOfRange: high watermark; outOfOrder: next sequence
  epoch @4 :UInt64;
}

struct GoAway @0xa505e5f607182905 { reason @0 :Text; graceMillis @1 :UInt32; }

enum Role @0xa606f60718293a06 { client @0; gateway @1; broker @2; tierer @3; coordinator @4; }

# The first message of a connection. Limits: 64 KiB a message until it is answered.
struct Hello @0xa7070718293a4b07 {
  minVersion @0 :UInt16;
  maxVersion @1 :UInt16;
  role @2 :Role;
  clientId @3 :Text;
  software @4 :Text;       # "sq-go/0.1.0"
  token @5 :Text;
  zone @6 :Text;
  clusterId @7 :Text;      # empty = any; else the server refuses another cluster's
  onBehalfOf @8 :Text;     # gateway → broker: the principal
}
struct HelloReply @0xa8081829304b5c08 {
  version @0 :UInt16;
  clusterId @1 :Text;
  nodeId @2 :UInt64;
  software @3 :Text;
  maxMessageBytes @4 :UInt32;
  maxBodyBytes @5 :UInt32;
  maxInFlight @6 :UInt32;
}

enum Durability @0xa909293a4b5c6d09 { none @0; writtenQuorum @1; fsyncQuorum @2; }

struct MetadataRequest @0xaa0a3a4b5c6d7e0a {
  topics @0 :List(TopicName);
  autoCreate @1 :Bool;     # create what is missing, where the gateway allows that
  struct TopicName @0xab0b4b5c6d7e8f0b { namespace @0 :Text; name @1 :Text; }
}
struct MetadataReply @0xac0c5c6d7e8f900c {
  clusterId @0 :Text;
  topics @1 :List(Topic);
  struct Topic @0xad0d6d7e8f90a10d {
    namespace @0 :Text;
    name @1 :Text;
    error @2 :Error;       # set: the rest is not
    id @3 :Batch.Uuid;
    mapVersion @4 :UInt32;
    partitions @5 :List(Partition);  # by index; key ranges in hash order
    batchBytesMax @6 :UInt32;
    durability @7 :Durability;       # what the topic asks for
  }
  struct Partition @0xae0e7e8f90a1b20e {
    index @0 :UInt32;
    hashFrom @1 :UInt64;   # first key hash that belongs here; the next partition's hashFrom ends it
    epoch @2 :UInt64;
    leader @3 :UInt64;     # broker id, 0 = none
  }
}

struct PublishRequest @0xaf0f8f90a1b2c30f {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  epoch @2 :UInt64;        # highest that the caller has seen
  ackNone @3 :Bool;        # answer when admitted; durability none
}
struct PublishReply @0xb01090a1b2c3d410 {
  baseOffset @0 :UInt64;
  lastOffset @1 :UInt64;
  offsetKnown @2 :Bool;    # false: an old duplicate, stored long ago
  duplicate @3 :Bool;
  epoch @4 :UInt64;
  highWatermark @5 :UInt64;
  logStart @6 :UInt64;
  appendTime @7 :Int64;
  durability @8 :Durability;
}

struct FetchRequest @0xb111a1b2c3d4e511 {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  offset @2 :UInt64;
  epoch @3 :UInt64;
  maxBytes @4 :UInt32;     # 0 = 1 MiB; one whole batch is returned even if larger
  waitMillis @5 :UInt32;   # how long to wait for a record at offset
}
struct FetchReply @0xb212b2c3d4e5f612 {
  epoch @0 :UInt64;
  highWatermark @1 :UInt64;
  logStart @2 :UInt64;
  localStart @3 :UInt64;
  nextOffset @4 :UInt64;   # where to read on; set even when no record came
  durability @5 :Durability;
}

struct ListOffsetsRequest @0xb313c3d4e5f60713 {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  epoch @2 :UInt64;
  union {
    earliest @3 :Void;
    latest @4 :Void;       # the high watermark
    time @5 :Int64;        # first offset whose append time is >= this (microseconds); the high watermark if none
  }
}
struct ListOffsetsReply @0xb414d4e5f6071814 {
  offset @0 :UInt64;
  epoch @1 :UInt64;
  highWatermark @2 :UInt64;
  logStart @3 :UInt64;
  localStart @4 :UInt64;
}

struct InitProducerRequest @0xb515e5f607182915 {}
struct InitProducerReply @0xb616f60718293a16 { producerId @0 :UInt64; }

# Closes the open segment (if it holds data) and commits its Seal. Answers when sealed.
struct SealRequest @0xb71707182930ab17 { topic @0 :Batch.Uuid; partition @1 :UInt32; }
struct SealReply @0xb8181829304bbc18 { sealedEnd @0 :UInt64; highWatermark @1 :UInt64; sealed @2 :Bool; }

# Moves the log start (delete-records), or only frees local data that a manifest covers.
struct TrimRequest @0xb919293a4b5ccd19 {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  beforeOffset @2 :UInt64;
  localOnly @3 :Bool;
}
struct TrimReply @0xba1a3a4b5c6dde1a { logStart @0 :UInt64; localStart @1 :UInt64; }

struct PartitionStateRequest @0xbb1b4b5c6d7eef1b { topic @0 :Batch.Uuid; partition @1 :UInt32; }
struct PartitionState @0xbc1c5c6d7e8f001c {
  epoch @0 :UInt64;
  highWatermark @1 :UInt64;
  logStart @2 :UInt64;
  localStart @3 :UInt64;
  end @4 :UInt64;
  sealedEnd @5 :UInt64;
  tierEnd @6 :UInt64;
  exportedEnd @7 :UInt64;
  sizeBytes @8 :UInt64;      # local
  durability @9 :Durability; # what acks say now
  active @10 :Bool;
  leader @11 :UInt64;        # broker id, 0 = none known
  replicas @12 :List(ReplicaState);  # members and learners, filled by the leader
  damaged @13 :UInt32;       # ranges of its log that cannot be read
}

struct ReplicaState @0xbd2c5c6d7e8f112d {
  broker @0 :UInt64;
  replica @1 :Batch.Uuid;
  learner @2 :Bool;
  match @3 :UInt64;          # up to here it has the leader's log on disk
  highWatermark @4 :UInt64;  # the last that it was told
  lastHeardMillis @5 :UInt64;  # since it was heard; the leader itself: 0
}
