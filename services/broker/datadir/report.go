package datadir

import (
	"fmt"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
)

// Finding is damage: where, what, and what follows from it.
type Finding struct {
	File string `json:"file"`
	// Partition is topic UUID and partition; empty where it is not known or does not apply.
	Partition string `json:"partition,omitempty"`
	// Offset and Position (bytes in the file) are where it begins; nil where there is no such place.
	Offset   *uint64 `json:"offset,omitempty"`
	Position *int64  `json:"position,omitempty"`
	// Class is torn, suspect or corrupt.
	Class string `json:"class"`
	// Text is a sentence for people.
	Text string `json:"text"`
}

// Note is something to know that is no damage.
type Note struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// Report is what Verify found.
type Report struct {
	Path string `json:"path"`
	// Kind says what was looked at: broker, replica, log or segment.
	Kind string `json:"kind"`
	// Active: a broker used the directory meanwhile. Its newest bytes are not judged.
	Active bool `json:"active"`
	// Quick: bodies were not read, so neither they nor digests were checked.
	Quick    bool  `json:"quick"`
	Replicas int   `json:"replicas"`
	Segments int   `json:"segments"`
	Batches  int64 `json:"batches"`
	Records  int64 `json:"records"`
	Bytes    int64 `json:"bytes"` // of valid batches
	// Seals is how many digests were compared with a Seal or a snapshot.
	Seals    int       `json:"seals"`
	Findings []Finding `json:"findings"`
	// More counts the findings beyond those listed.
	More  int    `json:"more,omitempty"`
	Notes []Note `json:"notes,omitempty"`
}

// Clean tells whether nothing was found.
func (r *Report) Clean() bool { return len(r.Findings) == 0 }

func (r *Report) add(f Finding) {
	if len(r.Findings) >= findingsMax {
		r.More++
		return
	}
	r.Findings = append(r.Findings, f)
}

func (r *Report) note(file, format string, args ...any) {
	if len(r.Notes) < findingsMax {
		r.Notes = append(r.Notes, Note{file, fmt.Sprintf(format, args...)})
	}
}

// found adds a finding about a file as a whole.
func (r *Report) found(class segment.Class, file, format string, args ...any) {
	r.add(Finding{File: file, Class: class.String(), Text: fmt.Sprintf(format, args...)})
}

// foundAt adds a finding about a place in a file.
func (r *Report) foundAt(class segment.Class, file, id string, o partition.Offset, position int64, format string, args ...any) {
	offset := uint64(o)
	r.add(Finding{
		File: file, Partition: id, Offset: &offset, Position: &position, Class: class.String(), Text: fmt.Sprintf(format, args...),
	})
}
