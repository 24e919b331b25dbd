package allinone

import "time"

const (
	// BrokersMax bounds Config.Brokers: one process has one memory and a handful of disks at most.
	BrokersMax = 16
	// restartWait is the pause before a broker is started anew.
	restartWait = 200 * time.Millisecond
	// journalSize is what a broker's journal takes: brokers share a machine here, perhaps only its memory.
	journalSize = 16 << 20
	// readyPoll is how often WaitReady looks.
	readyPoll = 2 * time.Millisecond
)
