package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// volume is a file system in an image of its own.
type volume struct {
	kind       string // ext4 or xfs
	image, dir string
}

// newVolume makes a file system of size bytes and mounts it until the test ends. The error says what this machine lacks.
func newVolume(t *testing.T, kind string, size int64) (*volume, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, errors.New("mounting an image needs root")
	}
	dir := t.TempDir()
	v := &volume{kind: kind, image: filepath.Join(dir, "image"), dir: filepath.Join(dir, "volume")}
	if err := os.Mkdir(v.dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(v.image, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(v.image, size); err != nil {
		return nil, err
	}
	quiet := map[string]string{"ext4": "-F", "xfs": "-f"}[kind]
	if err := run("mkfs."+kind, "-q", quiet, v.image); err != nil {
		return nil, err
	}
	if err := v.mount(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := v.unmount(); err != nil {
			t.Error(err)
		}
	})
	return v, nil
}

// run runs a program of the system, which must not take long.
func run(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func (v *volume) mount() error { return run("mount", "-t", v.kind, "-o", "loop", v.image, v.dir) }

func (v *volume) unmount() error {
	err := run("umount", v.dir)
	for try := 0; err != nil && try < 20; try++ { // a process that was just killed may still hold it
		time.Sleep(100 * time.Millisecond)
		err = run("umount", v.dir)
	}
	return err
}

// cut shuts the file system down without a last write, as a power cut does: what no sync has brought to the image is gone. All further calls
// fail with EIO until it is mounted anew.
func (v *volume) cut() error {
	root, err := os.Open(v.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	const shutdown = 0x8004587d // FS_IOC_SHUTDOWN, of ext4 as of xfs
	noLogFlush := uint32(2)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, root.Fd(), shutdown, uintptr(unsafe.Pointer(&noLogFlush))); errno != 0 {
		return fmt.Errorf("shut down %s: %w", v.kind, errno)
	}
	return nil
}

// remount makes the file system usable again after a cut.
func (v *volume) remount() error {
	if err := v.unmount(); err != nil {
		return err
	}
	return v.mount()
}
