package batch

import (
	"fmt"
	"iter"
)

// Each gives the whole batches of a body, one after the other; they alias it. It compares each prefix and its size with the bytes at hand
// and looks no further. After an error it ends.
func Each(body []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(body) > 0 {
			size, err := PeekSize(body)
			if err == nil && size > len(body) {
				err = fmt.Errorf("%w: %d of %d bytes", ErrShort, len(body), size)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(body[:size:size], nil) {
				return
			}
			body = body[size:]
		}
	}
}
