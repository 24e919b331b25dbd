package frame_test

import (
	"fmt"
	"testing"

	"github.com/seedqueue/sq/proto/frame"
)

// BenchmarkCall measures calls that are pipelined over one loopback connection, both ends included.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 16 << 10, 256 << 10} {
		for _, depth := range []int{1, 16} {
			b.Run(fmt.Sprintf("%dB/%d", size, depth), func(b *testing.B) {
				_, addr := serve(b, frame.ServerConfig{})
				client := dial(b, addr, frame.ClientConfig{})
				body := make([]byte, size)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				ring := make([]*frame.Pending, depth)
				wait := func(i int) {
					reply, err := ring[i%depth].Wait(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					reply.Release()
				}
				i := 0
				for b.Loop() {
					if i >= depth {
						wait(i)
					}
					p, err := client.Start(b.Context(), publish(1), body)
					if err != nil {
						b.Fatal(err)
					}
					ring[i%depth] = p
					i++
				}
				for j := max(0, i-depth); j < i; j++ {
					wait(j)
				}
			})
		}
	}
}
