package object

import "errors"

// ErrEndless says that a listing has no end.
var ErrEndless = errors.New("the service names a page of its listing again that was read before, so that the listing " +
	"would never end; check what stands before the service, or name files or folders that it lists rightly")

// Marks finds out whether the pages of a listing go round in a circle, in constant memory: it keeps the newest mark and
// the one whose number is the latest power of two (Brent's search for cycles).
type Marks struct {
	pages        int
	newest, kept string
}

// Next takes the mark of the next page. One that is the newest again fails at once, a longer circle after at most three
// times the pages that there are.
func (m *Marks) Next(mark string) error {
	if m.pages > 0 && (mark == m.newest || mark == m.kept) {
		return ErrEndless
	}
	m.pages++
	m.newest = mark
	if m.pages&(m.pages-1) == 0 {
		m.kept = mark
	}
	return nil
}
