package upstream

import (
	"time"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/gateway/internal/route"
)

// Limits of calls to brokers and tierers.
type Limits struct {
	DialTimeout   time.Duration // of connect and Hello
	RetryFor      time.Duration // how long a call is repeated, if its own deadline does not come before
	RetryFirst    time.Duration // the first wait between two attempts; it doubles
	RetryLast     time.Duration // the longest wait between two attempts
	SuspectAfter  time.Duration // an answer that takes longer is watched for a change of leader
	MovedGrace    time.Duration // how long an old leader may still answer when there is a new one
	MemberTimeout time.Duration // how long a follower may take that is asked in a leader's place
	AbandonGrace  time.Duration // how long an answer nobody waits for may keep its body before its connection is closed
	UnknownGrace  time.Duration // how long a topic that the View does not show is waited for: it may just have been created
	MaxInFlight   int           // unanswered calls of one connection
	MarksMax      int           // partitions of which the local start is remembered
	MessageBytes  int           // of an answer without its body
	BodyBytes     int           // of a body
	WriteTimeout  time.Duration // how long a broker may take nothing
	AnswerTimeout time.Duration // how long a broker may send nothing inside an answer
}

// DefaultLimits are those of production.
func DefaultLimits() Limits {
	return Limits{
		DialTimeout:   3 * time.Second,
		RetryFor:      15 * time.Second,
		RetryFirst:    5 * time.Millisecond,
		RetryLast:     250 * time.Millisecond,
		SuspectAfter:  200 * time.Millisecond,
		MovedGrace:    250 * time.Millisecond,
		MemberTimeout: 500 * time.Millisecond,
		AbandonGrace:  5 * time.Second,
		UnknownGrace:  route.UnknownGrace,
		MaxInFlight:   frame.DefaultMaxInFlight,
		MarksMax:      100_000,
		MessageBytes:  frame.DefaultMaxMessageBytes,
		BodyBytes:     frame.DefaultMaxBodyBytes,
		WriteTimeout:  frame.DefaultWriteTimeout,
		AnswerTimeout: frame.DefaultStallTimeout,
	}
}
