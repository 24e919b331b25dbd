package peer

import "time"

const (
	// creditBytes bounds the bodies that are unanswered between two brokers in a direction; one larger message goes out alone.
	creditBytes = 8 << 20
	// frameBodyBytes bounds the bodies of one frame; one larger message has a frame of its own.
	frameBodyBytes = 1 << 20
	// frameMessagesMax and frameMessageBytes bound a frame without its bodies: what a receiver takes, and what a sender fills.
	frameMessagesMax  = 4096
	frameMessageBytes = 512 << 10
	// listMax bounds each list in a message: the epochs of a log, the damaged ranges in it.
	listMax = 12 << 10
	// framesMax is how many frames of a connection may be unanswered: what is queued meanwhile shares the next one.
	framesMax = 32
	// laneMessagesMax bounds what one partition has queued on a connection. Beyond it the oldest go: later messages say more.
	laneMessagesMax = 256
	// laneBytesMax bounds the bodies among them, each of which keeps a file open; one larger message is let in.
	laneBytesMax = creditBytes
	// queueMessagesMax bounds what all partitions have queued on a connection.
	queueMessagesMax = 1 << 16
	// roomMin is what a partition may have on its way however many others do.
	roomMin = 64 << 10

	// lazyWait is how long a lazy message waits for company.
	lazyWait = 50 * time.Millisecond
	// pingEvery is how often a broker that shares a partition is asked whether it is there.
	pingEvery = 500 * time.Millisecond
	// silenceMax is how long a broker may say nothing although asked; dialling and Hello count.
	silenceMax = 1500 * time.Millisecond
	// settled is how long a connection has to last for the next one to be tried at once when it ends.
	settled = time.Second
	// redialFirst and redialLast bound the waits between attempts to reach a broker.
	redialFirst = 20 * time.Millisecond
	redialLast  = time.Second
	// neighboursEvery is how often the View is searched for the brokers that share a partition, at most.
	neighboursEvery = 200 * time.Millisecond
)
