package embedded

import (
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// An etcd that cannot write ends the process with a word: without one nobody knows what happened.
func TestFatalEtcdSaysWhy(t *testing.T) {
	const inside = "SQ_TEST_FATAL_ETCD"
	if os.Getenv(inside) != "" {
		log := zap.New(zapcore.NewNopCore(), zap.WithFatalHook(lastWords{"some/dir", os.Stderr}))
		log.Fatal("failed to save", zap.Error(fs.ErrPermission))
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFatalEtcdSaysWhy$") //nolint:gosec // this test itself.
	cmd.Env = append(os.Environ(), inside+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "sq: etcd in some/dir cannot go on") || !strings.Contains(string(out), "failed to save: permission denied") {
		t.Errorf("%v: %s", err, out)
	}
}
