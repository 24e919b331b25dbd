package replay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
)

const (
	// rewriteBytes is how much is rewritten at once.
	rewriteBytes = 1 << 20
	// blockBytes is the unit in which Rewrite steps over what cannot be read.
	blockBytes = 4 << 10
)

// Copy is redo of one log as a journal gives it back.
type Copy struct {
	segment.Redo
	// Read gives the bytes; nil where the journal has lost them and only knows that they were durable.
	Read func(p []byte) error
}

// Log writes what a journal holds of a log's last file into it, before the log is opened. copies are in the order in which the journal
// took them in, all of the mark's generation; mark is the replica's. Nothing is synced. It gives the mark of the next generation, which holds
// once everything is: with it durable the copies are dead. Doing it twice changes nothing.
//
// Everything from the mark on is written, also what the file seems to hold: after a failed sync it may be on no platter. Where the journal has
// lost a copy, the file's own bytes are written again; if they are damaged, the mark behind them tells Open that they were durable. Copies of
// a file that another follows are of no use: it was durable as a whole before the next one was made.
func Log(fsys vfs.FS, dir string, mark segment.Mark, copies []Copy) (segment.Mark, error) {
	next := mark
	next.Generation++
	base, found, err := lastBase(fsys, dir)
	if err != nil {
		return mark, err
	}
	var live []Copy
	for _, c := range copies {
		switch {
		case c.Generation != mark.Generation:
			return mark, fault.Errorf(fault.Corrupt, "replay redo at offset %d: it is of generation %d, the mark of %d", c.Offset, c.Generation, mark.Generation)
		case found && c.Base < base:
			continue
		case c.Base == base && found:
			live = append(live, c)
		}
		if c.End > next.Offset {
			// A file that is gone is told by its mark too.
			next = c.Mark()
			next.Generation++
		}
	}
	if len(live) == 0 {
		return next, nil
	}
	from := int64(0)
	if mark.Base == base {
		from = mark.Position
	}
	file, err := fsys.Open(dir+"/"+segment.Name(base, segment.LogPart), vfs.Write)
	if err != nil {
		return mark, diskError("open segment for redo", err)
	}
	defer file.Close() // the caller makes it durable by other means
	return next, replay(file, from, live)
}

// replay writes [from, …) of a file: from the copies, and between them the file's own bytes again.
func replay(file vfs.File, from int64, copies []Copy) error {
	var buffer []byte
	for _, c := range copies {
		if c.Position > from || c.Read == nil {
			if err := again(file, from, c.Position); err != nil {
				return diskError(at("rewrite before", c.Offset), err)
			}
		}
		if c.Read == nil {
			if err := again(file, c.Position, c.Position+c.Length); err != nil {
				return diskError(at("rewrite", c.Offset), err)
			}
		} else {
			if int64(cap(buffer)) < c.Length {
				buffer = make([]byte, c.Length)
			}
			if err := c.Read(buffer[:c.Length]); err != nil {
				return err
			}
			if _, err := file.WriteAt(buffer[:c.Length], c.Position); err != nil {
				return diskError(at("write redo", c.Offset), err)
			}
		}
		from = max(from, c.Position+c.Length)
	}
	return nil
}

// again rewrites what the file has of [from, to).
func again(file vfs.File, from, to int64) error {
	size, err := file.Size()
	if err != nil {
		return err
	}
	if to = min(to, size); from >= to {
		return nil
	}
	return Rewrite(file, from, to)
}

// lastBase finds the last segment in a directory.
func lastBase(fsys vfs.FS, dir string) (base partition.Offset, found bool, err error) {
	names, err := fsys.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, false, diskError("list", err)
	}
	for _, name := range names {
		if one, part, ok := segment.ParseName(name); ok && part == segment.LogPart {
			base, found = max(base, one), true
		}
	}
	return base, found, nil
}

// Rewrite writes the bytes of [from, to) over themselves. What cannot be read is left as it is: whoever assesses the file says what it is.
func Rewrite(file vfs.File, from, to int64) error {
	buffer := make([]byte, min(rewriteBytes, to-from))
	if mutant.Is(mutant.CutBeforeRewrite) {
		_, _ = file.ReadAt(buffer, from)
		_ = file.Truncate(from)
		_, err := file.WriteAt(buffer, from)
		return err
	}
	for from < to {
		p := buffer[:min(int64(len(buffer)), to-from)]
		n, err := file.ReadAt(p, from)
		if err != nil && !errors.Is(err, io.EOF) {
			if n = n / blockBytes * blockBytes; n == 0 {
				from = (from/blockBytes + 1) * blockBytes
				continue
			}
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		if _, err := file.WriteAt(p[:n], from); err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// at names an operation at an offset.
func at(what string, o partition.Offset) string { return fmt.Sprintf("%s at offset %d", what, o) }

// diskError gives an error of the disk its kind.
func diskError(op string, err error) error {
	kind := fault.DiskPoisoned
	if vfs.IsFull(err) {
		kind = fault.DiskFull
	}
	return &fault.Error{Kind: kind, Op: op, Err: err}
}
