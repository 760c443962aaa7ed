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

// Closes reports whether the sample is not seen to go on there. That a member ends there is left to Cut.
func (o *File) Closes(data []byte, n int) bool {
	w := Walk{Data: data, At: n, maxName: o.limits.name}
	m, err := w.Next()
	return errors.Is(err, errMore) || err == nil && m.Key == nil
}

// Cut measures the sample that data begins with, or a member that is no part of one, or a block of zeros.
func (o *File) Cut(data []byte, at int64, end bool) (n int, row bool, err error) {
	w := Walk{Data: data, base: at, maxName: o.limits.name}
	var key []byte
	for members := 0; ; members++ {
		m, err := w.Next()
		switch {
		case errors.Is(err, errMore):
			if end && n > 0 && w.At == len(data) {
				return n, true, nil
			}
			return 0, false, nil
		case errors.Is(err, errEnd):
			if n == 0 {
				n = block
			}
			return n, key != nil, nil
		case err != nil:
			return 0, false, err
		case m.Key == nil && key == nil:
			if m.End > len(data) {
				return 0, false, nil
			}
			return m.End, false, nil
		case m.Key == nil:
			if m.End-n > maxBetween {
				return n, true, nil
			}
			continue
		case key == nil:
			key = m.Key
		case !bytes.Equal(key, m.Key):
			return n, true, nil
		}
		if members >= o.limits.members {
			return 0, false, fmt.Errorf("sample %s has more than %d members: if it is to be trusted, raise "+
				"dataset.format.%s", Shown(key), o.limits.members, optionMembers)
		}
		if m.End > len(data) {
			return 0, false, nil
		}
		n = m.End
	}
}
