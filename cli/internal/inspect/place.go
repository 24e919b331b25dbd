package inspect

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seedqueue/sq/libs/vfs/osfs"
)

// Place is something on the machine that can be looked at.
type Place struct {
	*osfs.FS

	// Path is its path below the FS, which is rooted at the broker's data directory if it is part of one.
	Path string
	// Active: a broker has locked the data directory.
	Active bool
}

// levels is how far a data directory's root may lie above a file of it: replicas/<uuid>/log/<file>.
const levels = 4

// Open finds the data directory that a path belongs to. The caller closes the place.
func Open(path string) (*Place, error) {
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", path, err)
	}
	info, err := os.Stat(full)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", path, errors.Unwrap(err))
	}
	root := full
	if !info.IsDir() {
		root = filepath.Dir(full)
	}
	for up, n := root, 0; n <= levels; up, n = filepath.Dir(up), n+1 {
		if isDir(filepath.Join(up, "replicas")) || isDir(filepath.Join(up, "journal")) {
			root = up
			break
		}
	}
	name, err := filepath.Rel(root, full)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", path, err)
	}
	files, err := osfs.New(root)
	if err != nil {
		return nil, err //nolint:wrapcheck // names the directory.
	}
	return &Place{FS: files, Path: filepath.ToSlash(name), Active: locked(root)}, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// locked tells whether a process has locked the directory. The lock is only asked for shared and given back at once; the file is not made.
func locked(root string) bool {
	file, err := os.Open(filepath.Join(root, "lock"))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	return errors.Is(unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// Brokers lists the data directories that a directory of `sq dev` has; the path itself if it is none.
func Brokers(path string) []string {
	found, err := filepath.Glob(filepath.Join(path, "broker-*"))
	var brokers []string
	for _, dir := range found {
		if digits := strings.TrimPrefix(filepath.Base(dir), "broker-"); isDir(dir) && strings.Trim(digits, "0123456789") == "" {
			brokers = append(brokers, dir)
		}
	}
	if err != nil || len(brokers) == 0 || isDir(filepath.Join(path, "replicas")) {
		return []string{path}
	}
	return brokers
}
