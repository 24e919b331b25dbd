package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// etcdTick and etcdElection are short because nobody is to be elected but the one member: it is ready in well under a second.
	etcdTick     = 10  // ms
	etcdElection = 100 // ms
	// etcdReady bounds the start; a log of a long life is replayed in it.
	etcdReady = 60 * time.Second
	// etcdName never shows outside; it must not change, or the member would not know itself.
	etcdName = "sq"
	// etcdPeer is an address that is written into the member and never dialled.
	etcdPeer = "http://127.0.0.1:1"
)

// Etcd is a running etcd with one member.
type Etcd struct {
	server *embed.Etcd
	client *clientv3.Client
}

// lastWords says why etcd ends the process: it does so where it cannot write, and its log goes nowhere.
type lastWords struct {
	dir string
	out io.Writer
}

// OnWrite implements zapcore.CheckWriteHook. It does not return.
func (l lastWords) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	l.say(entry.Message, fields)
	zapcore.WriteThenFatal.OnWrite(entry, fields)
}

func (l lastWords) say(message string, fields []zapcore.Field) {
	why := ""
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok {
			why = ": " + err.Error()
		}
	}
	_, _ = fmt.Fprintf(l.out, "sq: etcd in %s cannot go on and ends the process: %s%s\n", l.dir, message, why)
}

// StartEtcd starts an etcd that keeps its data in dir and waits until it serves. An etcd that cannot write ends the process: it says why to
// last.
func StartEtcd(ctx context.Context, dir string, last io.Writer) (*Etcd, error) {
	peer, err := url.Parse(etcdPeer)
	if err != nil {
		return nil, fmt.Errorf("parse etcd's peer address: %w", err)
	}
	quiet := zap.New(zapcore.NewNopCore(), zap.WithFatalHook(lastWords{dir, last}))
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = etcdName, dir
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(quiet)
	cfg.ListenPeerUrls, cfg.ListenClientUrls = nil, nil
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{*peer}, []url.URL{}
	cfg.InitialCluster = etcdName + "=" + etcdPeer
	cfg.TickMs, cfg.ElectionMs = etcdTick, etcdElection
	cfg.AutoCompactionMode, cfg.AutoCompactionRetention = embed.CompactorModePeriodic, "1h"
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	timeout := time.NewTimer(etcdReady)
	defer timeout.Stop()
	select {
	case <-server.Server.ReadyNotify():
		return &Etcd{server: server, client: v3client.New(server.Server)}, nil
	case err = <-server.Err():
	case <-server.Server.StopNotify():
		err = errors.New("it stopped")
	case <-timeout.C:
		err = fmt.Errorf("not ready within %v", etcdReady)
	case <-ctx.Done():
		err = ctx.Err()
	}
	server.Close()
	return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
}

// Client gives the client in the process. It must be closed before Close, or that waits.
func (e *Etcd) Client() *clientv3.Client { return e.client }

// Failed gets the error with which etcd ends by itself.
func (e *Etcd) Failed() <-chan error { return e.server.Err() }

// Close stops etcd.
func (e *Etcd) Close() { e.server.Close() }
