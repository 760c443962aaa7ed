package tar

import (
	"bytes"
	"errors"
	"fmt"
)

// maxBetween is how many bytes of members that are no parts may be between parts of a sample: what is more ends it, so
// that none of them needs to be held to find out whether it goes on.
const maxBetween = 1 << 20

// Behind is what has the headers of the next member, but for those of a very long name.
func (o *File) Behind() int { return 8 * block }

// Closes is so where a member ends, of which Cut makes sure.
func (o *File) Closes([]byte) bool { return true }

// Cut measures the sample that data begins with, or a member that is no part of one, or a block of zeros.
func (o *File) Cut(data []byte, _ int64, end bool) (n int, row bool, err error) {
	n, row, _, err = o.measure(data, end)
	return n, row, err
}

// measure is Cut, and where data does not do, how much there is at least of what it measures.
func (o *File) measure(data []byte, end bool) (n int, row bool, least int, err error) {
	w := Walk{Data: data, maxName: o.limits.name}
	var key []byte
	for members := 0; ; members++ {
		m, err := w.Next()
		switch {
		case errors.Is(err, errMore):
			if end && n > 0 && w.At == len(data) {
				return n, true, 0, nil
			}
			return 0, false, n, nil
		case errors.Is(err, errEnd):
			if n == 0 {
				n = block
			}
			return n, key != nil, 0, nil
		case err != nil:
			return 0, false, 0, err
		case m.Key == nil && key == nil:
			if m.End > len(data) {
				return 0, false, m.End, nil
			}
			return m.End, false, 0, nil
		case m.Key == nil:
			if m.End-n > maxBetween {
				return n, true, 0, nil
			}
			continue
		case key == nil:
			key = m.Key
		case !bytes.Equal(key, m.Key):
			return n, true, 0, nil
		}
		if members >= o.limits.members {
			return 0, false, 0, fmt.Errorf("sample %s has more than %d members: if it is to be trusted, raise "+
				"dataset.format.%s", Shown(key), o.limits.members, optionMembers)
		}
		if m.End > len(data) {
			return 0, false, m.End, nil
		}
		n = m.End
	}
}
