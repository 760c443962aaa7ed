package parquet

import "github.com/penstock-ml/penstock/worker/formats/decode"

import "unsafe"

const (
	// aheadDictionary is how many bytes a dictionary has that does not stay in the caches near the core while the
	// window's other columns take their turns.
	aheadDictionary = 256 << 10
	// aheadTimes is how many times as many bytes of values are looked up in it once it is there, maxAhead the most.
	aheadTimes = 4
	maxAhead   = 2 << 20
)

// ahead holds values of a page that were looked up in a large dictionary before the window wants them.
type ahead[T word] struct {
	on     bool // for this page
	buffer []T
	left   []T // looked up, and not read yet
}

// begin begins a page.
func (a *ahead[T]) begin(on bool) { a.on, a.left = on, nil }

// room makes the buffer fit a dictionary, if there is memory for it.
func (a *ahead[T]) room(entries int, m *decode.Allowance) bool {
	var t T
	size := int64(unsafe.Sizeof(t))
	n := min(aheadTimes*entries, maxAhead/int(size))
	if n <= len(a.buffer) {
		return true
	}
	if !m.Spare(int64(n-len(a.buffer)) * size) {
		return len(a.buffer) > 0
	}
	a.buffer = make([]T, n)
	return true
}

// lookAhead looks up more values, if there are any that can be: what is wrong with others shows when they are wanted.
// Those before are gone.
func (f *fixed[T]) lookAhead() bool {
	a, r := &f.ahead, &f.index
	if !a.on || !a.room(len(f.dict), f.mem) {
		a.on = false
		return false
	}
	n := 0
	for n < len(a.buffer) && (r.left > 0 || len(r.src) > 0) {
		before := *r
		if r.left == 0 {
			if r.next() != nil {
				*r = before
				break
			}
			continue
		}
		k := min(len(a.buffer)-n, r.left)
		if f.gather(a.buffer[n:n+k]) != nil {
			*r = before
			break
		}
		n += k
	}
	a.left, a.on = a.buffer[:n], n > 0
	return a.on
}

// showAhead reads the page's next n values to position at by showing them where they were looked up, if they are there.
func (f *fixed[T]) showAhead(at, n int) bool {
	a := &f.ahead
	if at == 0 && len(a.left) == 0 && !f.lookAhead() {
		return false
	}
	if n > len(a.left) || at > 0 && f.shown == nil {
		return false
	}
	if at == 0 {
		f.shown = a.left
	}
	f.shown, a.left = f.shown[:at+n], a.left[n:]
	return true
}

// lookUpNext reads the page's next values.
func (f *fixed[T]) lookUpNext(dst []T) error {
	for a := &f.ahead; len(dst) > 0; {
		if len(a.left) == 0 && !f.lookAhead() {
			return f.gather(dst)
		}
		n := copy(dst, a.left)
		dst, a.left = dst[n:], a.left[n:]
	}
	return nil
}
