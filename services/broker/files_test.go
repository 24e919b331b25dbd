package broker_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/transport/tcpnet"
	"github.com/seedqueue/sq/libs/vfs/osfs"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker"
)

// On the machine's files and sockets: sendfile and O_DIRECT for real, three lives on one directory, health over HTTP.
func TestMachine(t *testing.T) {
	w := newWorld(t)
	w.real = tcpnet.New()
	dir, err := osfs.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s := &session{t: t, producer: 7}
	var want []string
	for life := 1; life <= 3; life++ {
		n := w.start(t, dir)
		if life == 1 {
			w.create(t, nil)
		} else {
			w.nominate(t, partition.Incarnation(life))
		}
		n.ready()
		if got := get(t, n.Addrs().HTTP, "/readyz"); !strings.HasPrefix(got, "200 ready") {
			t.Errorf("readyz says %q", got)
		}
		client := n.client(wirecapnp.Role_gateway)
		if diff := cmp.Diff(want, readAll(t, client)); diff != "" {
			t.Errorf("life %d (-want +got):\n%s", life, diff)
		}
		for i := range 20 {
			value := fmt.Sprintf("life %d record %d %s", life, i, strings.Repeat("x", 3000*i))
			if _, err := publish(t.Context(), client, s.next(value)); err != nil {
				t.Fatal(err)
			}
			want = append(want, value)
		}
		if diff := cmp.Diff(want, readAll(t, client)); diff != "" {
			t.Errorf("life %d (-want +got):\n%s", life, diff)
		}
		second, err := osfs.New(dir.Name("."))
		if err != nil {
			t.Fatal(err)
		}
		_, err = broker.New(t.Context(), w.config(), w.deps(second))
		wantKind(t, err, fault.DataDirInUse)
		_ = second.Close()
		_ = client.Close()
		if err := n.end(); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, addr, path string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, body)
}
