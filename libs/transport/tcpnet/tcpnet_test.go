package tcpnet_test

import (
	"net"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/libs/transport/tcpnet"
	"github.com/seedqueue/sq/libs/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(*testing.T) transport.Network { return tcpnet.New() })
}

func option(t *testing.T, conn net.Conn, level, name int) int {
	t.Helper()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("%T is no *net.TCPConn", conn)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var value int
	var inner error
	if err := raw.Control(func(fd uintptr) { value, inner = unix.GetsockoptInt(int(fd), level, name) }); err != nil || inner != nil {
		t.Fatal(err, inner)
	}
	return value
}

func TestSocketOptions(t *testing.T) {
	n := tcpnet.New()
	l, err := n.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := n.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	for end, conn := range map[string]net.Conn{"dialed": near, "accepted": far} {
		if option(t, conn, unix.IPPROTO_TCP, unix.TCP_NODELAY) == 0 {
			t.Errorf("%s: no TCP_NODELAY", end)
		}
		if option(t, conn, unix.SOL_SOCKET, unix.SO_KEEPALIVE) == 0 {
			t.Errorf("%s: no keep-alive", end)
		}
		if got := option(t, conn, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL); got != 5 {
			t.Errorf("%s: keep-alive every %d s", end, got)
		}
	}
}
