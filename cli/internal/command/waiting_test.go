package command

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitingSpeaksOnceAndOnlyWhenItIsLong(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		lines int
	}{{patience - 1, 0}, {10 * patience, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			p := &program{env: &Env{Stderr: &out}}
			answered := p.waiting("gateway:6064")
			time.Sleep(c.takes) // fake time
			answered()
			synctest.Wait()
			if got := strings.Count(out.String(), "gateway:6064"); got != c.lines {
				t.Errorf("after %v: %q", c.takes, out.String())
			}
		})
	}
}
