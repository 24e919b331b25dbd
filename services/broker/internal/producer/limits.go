package producer

import "time"

const (
	// remembered is how many batches a session keeps: as many may be unacknowledged at a time.
	remembered = 5
	// Window is how long an Idempotency-Key is remembered, by append time.
	Window = 10 * time.Minute
	// KeysMax bounds the remembered keys of a partition; the oldest go first.
	KeysMax = 1 << 20
	// SessionsMax bounds the sessions of a partition; the leader expires the longest idle beyond it.
	SessionsMax = 100_000
	// IdleMax is how long a session may be idle before the leader expires it.
	IdleMax = 7 * 24 * time.Hour
	// expireMax bounds the ids in one ProducerExpire record.
	expireMax = 10_000
)
