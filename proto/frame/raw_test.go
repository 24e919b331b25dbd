package frame_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// requestMessage marshals a request.
func requestMessage(t testing.TB, fill func(wirecapnp.Request) error) []byte {
	t.Helper()
	message, segment := capnp.NewSingleSegmentMessage(nil)
	request, err := wirecapnp.NewRootRequest(segment)
	if err != nil {
		t.Fatal(err)
	}
	request.SetId(1)
	if err := fill(request); err != nil {
		t.Fatal(err)
	}
	data, err := message.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func helloMessage(t testing.TB) []byte { return helloVersions(t, 1, 1) }

func helloVersions(t testing.TB, lowest, highest uint16) []byte {
	return requestMessage(t, func(request wirecapnp.Request) error {
		hello, err := request.NewHello()
		hello.SetMinVersion(lowest)
		hello.SetMaxVersion(highest)
		return err
	})
}

func publishMessage(t testing.TB, id uint64) []byte {
	return requestMessage(t, func(request wirecapnp.Request) error {
		request.SetId(id)
		_, err := request.NewPublish()
		return err
	})
}

// publishWithBody claims a body of n bytes.
func publishWithBody(t testing.TB, n uint32) []byte {
	return requestMessage(t, func(request wirecapnp.Request) error {
		request.SetId(2)
		request.SetBodyBytes(n)
		_, err := request.NewPublish()
		return err
	})
}

// unknownKind is a request of a later protocol version, with a body.
func unknownKind(t testing.TB, body string) []byte {
	data := requestMessage(t, func(request wirecapnp.Request) error {
		request.SetId(2)
		request.SetBodyBytes(uint32(len(body)))
		request.SetPing()
		return nil
	})
	binary.LittleEndian.PutUint16(data[8+8+42:], 999) // framing, root pointer, the union's tag
	return append(data, body...)
}

// segments makes the framing of a message from its segment count minus one and the first segment's words.
func segments(countMinusOne, words uint32, rest ...byte) []byte {
	data := binary.LittleEndian.AppendUint32(nil, countMinusOne)
	data = binary.LittleEndian.AppendUint32(data, words)
	return append(data, rest...)
}

func words(all ...uint64) []byte {
	var data []byte
	for _, word := range all {
		data = binary.LittleEndian.AppendUint64(data, word)
	}
	return data
}

func writeRequests(t testing.TB, conn net.Conn, messages ...[]byte) {
	t.Helper()
	for _, message := range messages {
		if _, err := conn.Write(message); err != nil {
			t.Fatal(err)
		}
	}
}

// response is what a raw reader saw.
type response struct {
	ID    uint64
	Which wirecapnp.Response_Which
	Kind  wirecapnp.ErrorKind
	Text  string
}

// readResponses reads to the end of the stream.
func readResponses(t testing.TB, conn net.Conn) []response {
	t.Helper()
	data, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("connection ends with %v behind %d bytes, want a clean end", err, len(data))
	}
	var all []response
	for len(data) > 0 {
		size := 8 + 8*int(binary.LittleEndian.Uint32(data[4:]))
		message, err := capnp.Unmarshal(data[:size])
		if err != nil {
			t.Fatal(err)
		}
		in, err := wirecapnp.ReadRootResponse(message)
		if err != nil {
			t.Fatal(err)
		}
		r := response{ID: in.Id(), Which: in.Which()}
		if r.Which == wirecapnp.Response_Which_error {
			failed, err := in.Error()
			if err != nil {
				t.Fatal(err)
			}
			r.Kind = failed.Kind()
			r.Text, _ = failed.Text()
		}
		all = append(all, r)
		data = data[size+int(in.BodyBytes()):]
	}
	return all
}

// responseMessage marshals a response.
func responseMessage(t testing.TB, fill func(wirecapnp.Response)) []byte {
	t.Helper()
	message, segment := capnp.NewSingleSegmentMessage(nil)
	response, err := wirecapnp.NewRootResponse(segment)
	if err != nil {
		t.Fatal(err)
	}
	fill(response)
	data, err := message.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
