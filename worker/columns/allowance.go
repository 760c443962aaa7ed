package columns

import (
	"errors"
	"fmt"
	"math"
	"unsafe"
)

// allowance counts the bytes that a Decoder holds of pages, dictionaries and the window, and bounds them before they
// are allocated: few bytes of a file may stand for very many. Bitmaps are not counted, being an eighth of that at most.
type allowance struct{ limit, held int64 }

// ErrMemory says that a window takes more memory than a Decoder may use. One of a larger limit may decode it.
var ErrMemory = errors.New("decoding a window takes more memory than this worker gives it")

// take counts n bytes more.
func (m *allowance) take(n int64) error {
	if n > m.limit-m.held {
		return fmt.Errorf("%w, %d MiB: give workers more (--memory), or leave the column out", ErrMemory, m.limit>>20)
	}
	m.held += n
	return nil
}

// grow returns s with length n or more, its values kept.
func grow[T any](m *allowance, s []T, n int) ([]T, error) {
	if n <= cap(s) {
		return s[:max(n, len(s))], nil
	}
	if n > math.MaxInt32 {
		return s, fmt.Errorf("a window with %d values or bytes of them; at most %d can be numbered", n, math.MaxInt32)
	}
	var t T
	size := int64(unsafe.Sizeof(t))
	more := int64(n - cap(s))
	more += min(int64(n/4+64), max(0, (m.limit-m.held)/size-more)) // room to spare
	if err := m.take(more * size); err != nil {
		return s, err
	}
	grown := make([]T, int64(cap(s))+more)
	copy(grown, s)
	return grown, nil
}
