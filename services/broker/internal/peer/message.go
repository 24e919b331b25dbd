package peer

import (
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// Message is one message between two replicas of a partition.
type Message struct {
	Partition partition.ID
	From, To  partition.Member
	// Quorum says it. An Append or Fetched that is sent has no Entries: Body carries them. An Install that is sent has its Part, which Body
	// carries too: it must not change until Body is closed.
	Quorum quorum.Message
	// Exported goes with an Append: manifests cover the log up to here, so that followers may trim their local copies.
	Exported partition.Offset
	// Body is whole batches read from the log; nil = none. Peers owns it from Send on: closed once, when it is written or dropped.
	Body frame.Body
	// Lazy says that it may wait for company, 50 ms at most: a high watermark that moved.
	Lazy bool
}

// Delivery is a Message that came from another broker. Its From.Broker is what the connection said. The Entries of an Append or Fetched have
// good headers and bodies; they, and the Part of an Install, alias memory that is Release's.
type Delivery struct {
	Message
	// Release says that the memory behind the message is not used any more. Call it once, from any goroutine. It is never nil.
	Release func()
}

// Handler takes what comes.
type Handler interface {
	// Deliver takes a message, which is for the replica d.To of the partition: where there is none it is released and dropped. It must not wait:
	// it is called on the connection's goroutine. Messages of one connection come in the order in which they were sent.
	Deliver(d Delivery)
}

// Suspect is a broker that does not answer.
type Suspect struct {
	Broker      partition.NodeID
	Incarnation partition.Incarnation // that the View had when it was last reached, or first tried
}
