package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
)

const (
	fileSuffix = ".state"
	tempSuffix = ".tmp"
	nameDigits = 20
)

func fileName(number uint64) string { return fmt.Sprintf("%0*d%s", nameDigits, number, fileSuffix) }

func parseName(name string) (number uint64, ok bool) {
	digits, found := strings.CutSuffix(name, fileSuffix)
	if !found || len(digits) != nameDigits {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil && number > 0
}

// files gives the numbers of the files in dir, ascending, and the names of unfinished ones. A missing directory has none.
func files(fsys vfs.FS, dir string) (numbers []uint64, unfinished []string, err error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	for _, name := range names {
		if number, ok := parseName(name); ok {
			numbers = append(numbers, number)
		} else if strings.HasSuffix(name, tempSuffix) {
			unfinished = append(unfinished, name)
		}
	}
	return numbers, unfinished, err
}

// Reading is what a file says.
type Reading struct {
	State   State
	Number  uint64 // of the file
	Next    uint64 // sequence behind the last valid record
	Records int
	// Position is behind the last valid record: of the damage, where there is some.
	Position int64
	// Torn is the length of the bytes behind the last record that are neither zero nor valid: the end of a write that nobody was
	// answered for.
	Torn int64
}

// Inspect reads the newest file in dir without changing anything. each, if not nil, sees every valid record with its position and sequence.
// A missing journal is an error that wraps fs.ErrNotExist; damage is fault.Corrupt.
func Inspect(fsys vfs.FS, dir string, each func(position int64, sequence uint64, r Record)) (Reading, error) {
	numbers, _, err := files(fsys, dir)
	if err != nil {
		return Reading{}, diskError("list journal", err)
	}
	if len(numbers) == 0 {
		return Reading{}, fmt.Errorf("find journal in %s: %w", fsys.Name(dir), fs.ErrNotExist)
	}
	number := numbers[len(numbers)-1]
	p, err := readFile(fsys, dir+"/"+fileName(number))
	if err != nil {
		return Reading{}, fault.Errorf(fault.Corrupt, "read journal %d: %w", number, err)
	}
	reading, err := replay(p, number, each)
	return reading, fault.Wrap(fmt.Sprintf("replay journal %d", number), err)
}

func readFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxFileBytes {
		return nil, fmt.Errorf("file of %d bytes, the limit is %d", size, maxFileBytes)
	}
	p := make([]byte, size)
	n, err := f.ReadAt(p, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return p[:n], nil
}

// replay folds a file's records. See doc.go, 3, for what is torn and what is corrupt.
func replay(p []byte, number uint64, each func(int64, uint64, Record)) (out Reading, err error) {
	h, err := parseHeader(p, number)
	if err != nil {
		return Reading{}, fault.Errorf(fault.Corrupt, "%w", err)
	}
	out = Reading{State: State{Replicas: map[partition.UUID]Replica{}}, Number: number, Next: h.first}
	at := headerBytes
	defer func() { out.Position = int64(at) }()
	for at < len(p) {
		f, size, err := parseFrame(p[at:], number)
		if err == nil && f.sequence != out.Next {
			err = fmt.Errorf("%w: sequence %d, expected %d", errRecord, f.sequence, out.Next)
		}
		if err != nil {
			if proof := provesDurable(p[at:], number, out.Next); proof != 0 {
				return out, fault.Errorf(fault.Corrupt, "position %d: record %d, durable by record %d: %w", at, out.Next, proof, err)
			}
			break
		}
		if err := out.State.apply(f.Record); err != nil {
			return out, fault.Errorf(fault.Corrupt, "position %d: %w", at, err)
		}
		if each != nil {
			each(int64(at), f.sequence, f.Record)
		}
		at += size
		out.Next++
		out.Records++
	}
	if out.Next-h.first < h.checkpoint {
		return out, fault.Errorf(fault.Corrupt, "position %d: %d of %d records of the checkpoint", at, out.Next-h.first, h.checkpoint)
	}
	out.Torn = int64(len(trimZeros(p[at:])))
	return out, nil
}

// provesDurable looks for a record anywhere in p that was written when the record with this sequence was durable, and gives its sequence;
// 0 = none.
func provesDurable(p []byte, number, sequence uint64) uint64 {
	for at := 0; at+frameBytes <= len(p); at += 8 {
		if f, _, err := parseFrame(p[at:], number); err == nil && f.durable > sequence {
			return f.sequence
		}
	}
	return 0
}

func trimZeros(p []byte) []byte {
	n := len(p)
	for n > 0 && p[n-1] == 0 {
		n--
	}
	return p[:n]
}
