package flakybucket_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/objstore/buckettest"
	"github.com/seedqueue/sq/libs/objstore/flakybucket"
	"github.com/seedqueue/sq/libs/objstore/membucket"
)

func TestConformance(t *testing.T) {
	buckettest.Run(t, func(*testing.T) (objstore.Bucket, string) { return flakybucket.New(membucket.New(clock.Real())), "" }, 0)
}

func put(t *testing.T, b objstore.Bucket, key, data string) error {
	t.Helper()
	_, err := b.Put(t.Context(), key, bytes.NewReader([]byte(data)), int64(len(data)), objstore.PutOptions{IfAbsent: true})
	return err
}

func get(t *testing.T, b objstore.Bucket, key string) (string, error) {
	t.Helper()
	body, _, err := b.Get(t.Context(), key, 0, -1)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(body)
	return string(data), errors.Join(err, body.Close())
}

func TestRules(t *testing.T) {
	b := flakybucket.New(membucket.New(clock.Real()))
	b.Set(
		flakybucket.Rule{Op: flakybucket.Put, Key: "lost", Effect: flakybucket.Ambiguous, Times: 1},
		flakybucket.Rule{Op: flakybucket.Put, After: 1, Times: 1, Effect: flakybucket.Fail, Err: objstore.ErrDenied},
		flakybucket.Rule{Op: flakybucket.Get, Key: "bad", Times: 1, Effect: flakybucket.Corrupt},
		flakybucket.Rule{Op: flakybucket.Get, Key: "short", Times: 1, Effect: flakybucket.Short},
	)
	if err := put(t, b, "lost", "data"); !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("ambiguous put: %v", err)
	}
	if got, err := get(t, b, "lost"); got != "data" || err != nil {
		t.Errorf("after an ambiguous put: %q, %v", got, err)
	}
	if err := put(t, b, "bad", "data"); err != nil {
		t.Errorf("the first put that counts: %v", err)
	}
	if err := put(t, b, "short", "data"); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("the second: %v", err)
	}
	if err := put(t, b, "short", "data"); err != nil {
		t.Errorf("the third: %v", err)
	}
	if got, err := get(t, b, "bad"); got == "data" || len(got) != 4 || err != nil {
		t.Errorf("corrupt get: %q, %v", got, err)
	}
	if got, err := get(t, b, "short"); got != "da" || !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("short get: %q, %v", got, err)
	}
	for _, key := range []string{"bad", "short"} {
		if got, err := get(t, b, key); got != "data" || err != nil {
			t.Errorf("%s again: %q, %v", key, got, err)
		}
	}
	if puts := b.Calls(flakybucket.Put); puts != 4 {
		t.Errorf("%d puts counted", puts)
	}
}

func TestHold(t *testing.T) {
	b := flakybucket.New(membucket.New(clock.Real()))
	b.Set(flakybucket.Rule{Op: flakybucket.Put, Effect: flakybucket.Hold})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := b.Put(ctx, "a", bytes.NewReader(nil), 0, objstore.PutOptions{})
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("a held call ended with %v", err)
	default:
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("held call after its context's end: %v", err)
	}
}
