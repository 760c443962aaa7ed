package decode

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/penstock-ml/penstock/worker/garbage"
	"github.com/penstock-ml/penstock/worker/memory"
)

// Allowance counts the bytes that a decoder holds of pages, dictionaries and the window, and bounds them before they
// are allocated: few bytes of a file may stand for very many. Bitmaps are not counted, being an eighth of that at most.
type Allowance struct {
	limit, held int64
	more        func(least, wish int64) (int64, error) // nil: there is none
}

// NewAllowance returns one of so many bytes.
func NewAllowance(limit int64) *Allowance { return &Allowance{limit: limit} }

// Allow sets how many bytes may be held. It must not be less than what is held already.
func (m *Allowance) Allow(bytes int64) { m.limit = bytes }

// Held is how many bytes are held.
func (m *Allowance) Held() int64 { return m.held }

// AskFor sets whom the decoder asks when it needs more than its limit. It asks for at least least bytes (0: it can do
// without), and at best wish; the answer raises the limit, and an error ends the extent.
func (m *Allowance) AskFor(more func(least, wish int64) (int64, error)) { m.more = more }

// Give counts n bytes less.
func (m *Allowance) Give(n int64) { m.held -= n }

// Take counts n bytes more.
func (m *Allowance) Take(n int64) error {
	_, err := m.takeSome(n, n)
	return err
}

// takeSome counts as many bytes more as it can, from least to wish, and returns how many.
func (m *Allowance) takeSome(least, wish int64) (int64, error) {
	free := m.limit - m.held
	if wish > free && m.more != nil {
		got, err := m.more(max(0, least-free), wish-free)
		if err != nil {
			return 0, err
		}
		m.limit += got
		free += got
	}
	if least > free {
		return 0, fmt.Errorf("%w, %d MiB: give workers more (--memory), or leave the column out",
			memory.ErrLimit, m.limit>>20)
	}
	n := min(wish, free)
	m.held += n
	return n, nil
}

// Spare counts n bytes more, if they are free.
func (m *Allowance) Spare(n int64) bool {
	got, err := m.takeSome(0, n)
	if err != nil || got < n {
		m.held -= got
		return false
	}
	return true
}

// maxLeap is how many times as much memory as is needed may be taken because more is likely: files are not always right
// about that.
const maxLeap = 8

// Grow returns s with length n or more, its values kept.
func Grow[T any](m *Allowance, s []T, n int) ([]T, error) { return GrowTo(m, s, n, n) }

// GrowTo does so for a slice that is likely to become longer soon, up to likely. It grows by an eighth at least,
// however little memory there is: slices that are copied for each few values would take for ever.
func GrowTo[T any](m *Allowance, s []T, n, likely int) ([]T, error) {
	if n <= cap(s) {
		return s[:max(n, len(s))], nil
	}
	if n > math.MaxInt32 {
		return s, fmt.Errorf("a window with %d values or bytes of them; at most %d can be numbered", n, math.MaxInt32)
	}
	var t T
	size := int64(unsafe.Sizeof(t))
	least := int64(min(max(n, cap(s)+cap(s)/8), math.MaxInt32)) * size
	wish := int64(min(max(n+n/4+64, min(likely, maxLeap*n)), math.MaxInt32)) * size // with room to spare
	bytes, err := m.takeSome(least, wish)
	if err != nil {
		return s, err
	}
	garbage.MakeRoom(bytes)
	grown := make([]T, bytes/size)
	copy(grown, s)
	m.held -= int64(cap(s))*size + bytes%size // both are there until the copy is made
	return grown, nil
}
