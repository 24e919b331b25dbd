# What the replicas of partitions say to each other, many of them in one frame: broker to broker, on the brokers' data port. The words
# are those of broker/internal/quorum; docs/formats/wire.md has the rules.
@0xd5f1a1a83a1f5b05;

using Go = import "/go.capnp";
using Batch = import "batch.capnp";
$Go.package("peercapnp");
$Go.import("github.com/seedqueue/sq/proto/gen/capnp/peercapnp");

# The request's body holds the messages' bodies, in the messages' order. Its answer says that the frame was taken up, not what became of it.
struct Frame @0xc1a2b3c4d5e60710 { messages @0 :List(Message); }

struct Message @0xc2b3c4d5e6071821 {
  topic @0 :Batch.Uuid;
  partition @1 :UInt32;
  bodyBytes @2 :UInt32;      # append, fetched: whole batches; install: a part of a snapshot; else 0
  from @3 :Batch.Uuid;       # the replica that speaks; its broker is the connection's
  to @4 :Batch.Uuid;         # the replica that is meant; another one of the partition does not answer
  epoch @5 :UInt64;
  union {
    prepare @6 :Void;
    prepareOk @7 :PrepareOk;
    append @8 :Append;
    appendOk @9 :AppendOk;
    nack @10 :Nack;
    fetch @11 :Fetch;
    fetched @12 :Void;
    install @13 :Install;
  }
}

struct EpochStart @0xc3c4d5e607182932 { epoch @0 :UInt64; start @1 :UInt64; }
struct Range @0xc4d5e60718293a43 { from @0 :UInt64; to @1 :UInt64; }

# The epoch is promised, and this is the log.
struct PrepareOk @0xc5e60718293a4b54 {
  lastEpoch @0 :UInt64;
  start @1 :UInt64;
  end @2 :UInt64;
  chain @3 :UInt64;          # of the batch that would follow
  highWatermark @4 :UInt64;
  epochs @5 :List(EpochStart);
  suspect @6 :Bool;          # an unproven tail was cut
  faults @7 :List(Range);    # damaged here, in order: neither held nor lacking
}

# The body's batches follow prev; none: only the other words are news.
struct Append @0xc6071829304b5c65 {
  prev @0 :UInt64;
  prevEpoch @1 :UInt64;
  prevChain @2 :UInt64;      # 0 without batches = not known
  until @3 :UInt64;          # where the batches end
  highWatermark @4 :UInt64;
  round @5 :UInt64;          # counts what the leader of the epoch sends; answers name it
  exported @6 :UInt64;       # manifests cover the log up to here
}

struct AppendOk @0xc71829304b5c6d76 {
  match @0 :UInt64;
  written @1 :UInt64;
  round @2 :UInt64;
  highWatermark @3 :UInt64;  # what the replica knows to be committed
}

struct Nack @0xc829304b5c6d7e87 {
  promised @0 :UInt64;
  hintEpoch @1 :UInt64;
  hintEnd @2 :UInt64;
  full @3 :Bool;             # the disk takes no appends
  round @4 :UInt64;          # of the Append; 0 for a Prepare
}

struct Fetch @0xc9304b5c6d7e8f98 { from @0 :UInt64; until @1 :UInt64; }

# A replica whose log ends below the leader's local start begins anew at `at`, with the state that the log up to there amounts to. The
# body is a part of its snapshot; the parts come in order.
struct Install @0xcb5c6d7e8f90a1ba {
  at @0 :UInt64;
  chain @1 :UInt64;          # of the batch at `at`
  highWatermark @2 :UInt64;
  round @3 :UInt64;
  size @4 :UInt64;           # of the whole snapshot
  from @5 :UInt64;           # where the body begins in it
  crc @6 :UInt32;            # CRC-32C of the body
}

# Where replicas of this broker stand. A hint for whom to nominate: nothing is promised by it.
struct PositionsRequest @0xcc6d7e8f90a1b2cb {
  partitions @0 :List(Partition);
  struct Partition @0xcd7e8f90a1b2c3dc { topic @0 :Batch.Uuid; partition @1 :UInt32; }
}
struct PositionsReply @0xce8f90a1b2c3d4ed {
  positions @0 :List(Position);  # in the order asked
  struct Position @0xcf90a1b2c3d4e5fe {
    known @0 :Bool;          # false: no replica here, or it is not open; the rest is not set
    replica @1 :Batch.Uuid;
    promised @2 :UInt64;
    lastEpoch @3 :UInt64;
    end @4 :UInt64;
    highWatermark @5 :UInt64;
    faulty @6 :Bool;         # cannot lead: damaged, suspect or quarantined
  }
}
