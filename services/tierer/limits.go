package tierer

import (
	"time"

	"github.com/seedqueue/sq/services/tierer/internal/api"
	"github.com/seedqueue/sq/services/tierer/internal/coldread"
	"github.com/seedqueue/sq/services/tierer/internal/export"
	"github.com/seedqueue/sq/services/tierer/internal/harvest"
	"github.com/seedqueue/sq/services/tierer/internal/upload"
)

const (
	leaseTTLMin    = 2 * time.Second
	cacheMemoryMin = 16 << 20
	// footerMemory is what parsed footers take beside the blocks: some thousand segments of 128 MiB.
	footerMemory = 64 << 20

	// tablesMax is how many partitions' tables are cached.
	tablesMax = 50_000
	// pruneEvery is how long a replaced manifest stays at least; at most twice that.
	pruneEvery = 10 * time.Minute

	// connectionInFlight bounds the reads of a connection: each may hold an answer in memory.
	connectionInFlight = 32
	// brokerInFlight bounds the calls to a broker.
	brokerInFlight = 64
)

func uploadLimits() upload.Limits {
	return upload.Limits{Uploads: 4, ReadBytes: 1 << 20, Timeout: 10 * time.Minute}
}

func exportLimits() export.Limits {
	return export.Limits{Linger: 50 * time.Millisecond, Tables: 1_000, Segments: 200_000, Asks: 16, Timeout: 30 * time.Second}
}

func harvestLimits() harvest.Limits {
	return harvest.Limits{
		Wait: 10 * time.Second, Segments: 16, Workers: 64, PaceFirst: 50 * time.Millisecond, PaceLast: 2 * time.Second,
		RetryFirst: 200 * time.Millisecond, RetryLast: 30 * time.Second,
	}
}

func coldreadLimits(cacheMemory int64) coldread.Limits {
	return coldread.Limits{CacheBytes: cacheMemory, FooterBytes: footerMemory, Gets: 32, GetTimeout: 30 * time.Second, ReadAhead: 4}
}

func apiLimits() api.Limits {
	return api.Limits{Reads: 128, FetchDefault: 1 << 20, FetchMax: 4 << 20}
}
