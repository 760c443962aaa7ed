package tar

import (
	"errors"
	"fmt"
)

// Member is a file of a tar, or what else it has.
type Member struct {
	Name []byte // "train/000.seg.PNG"
	// Key and Part are what makes it a part of a sample: "train/000", "seg.PNG". Nil: it is none.
	Key, Part []byte
	// From is where its bytes begin in the data, and To where they end. End is where the next member begins. The last
	// two may be behind the data.
	From, To, End int
}

// Walk goes from one member to the next.
type Walk struct {
	Data []byte
	At   int // where the next member begins

	maxName int // 0: any
	trusted bool
}

// NewWalk walks over a sample that was cut, and so checked.
func NewWalk(sample []byte) Walk { return Walk{Data: sample, trusted: true} }

// Reasons why there is no next member.
var (
	errMore = errors.New("the member's headers go on behind the data")
	errEnd  = errors.New("the archive ends")
)

// maxExtended bounds the headers in front of a header.
const maxExtended = 1 << 20

// Next returns the next member, whose headers are all in the data.
func (w *Walk) Next() (Member, error) {
	var of said
	for at := w.At; ; {
		if at > len(w.Data)-block {
			return Member{}, errMore
		}
		b := w.Data[at : at+block]
		if b[0] == 0 && isZero(b) {
			return Member{}, errEnd
		}
		h, err := parseHeader(b, w.trusted)
		if err != nil {
			return Member{}, headerError(at, err)
		}
		at += block
		switch h.kind {
		case longName, longLink, extended, solaris, global:
			if h.size > maxExtended {
				return Member{}, fmt.Errorf("the headers of one member have %d bytes, and %d may be: the file is "+
					"damaged; write it again", h.size, maxExtended)
			}
			end := at + padded(h.size)
			if end-w.At > 4*maxExtended {
				return Member{}, fmt.Errorf("the headers of one member have more than %d bytes: the file is damaged; "+
					"write it again", 4*maxExtended)
			}
			if end > len(w.Data) {
				return Member{}, errMore
			}
			if err := of.extend(h.kind, w.Data[at:at+int(h.size)]); err != nil {
				return Member{}, headerError(at-block, err)
			}
			at = end
		default:
			return w.member(h, of, at)
		}
	}
}

// headerError says where a header is.
func headerError(at int, err error) error {
	if at == 0 { // whoever walks says that
		return err
	}
	return fmt.Errorf("header, %d bytes behind that: %w", at, err)
}

// extend reads what stands in front of a header.
func (s *said) extend(kind byte, data []byte) error {
	switch kind {
	case longName:
		s.name = text(data)
	case extended, solaris, global:
		return s.pax(data, kind)
	}
	return nil
}

func (w *Walk) member(h header, of said, at int) (Member, error) {
	m := Member{Name: h.name, From: at}
	if len(of.name) > 0 {
		m.Name = of.name
	}
	if of.hasSize && (h.kind < '1' || h.kind > '6') {
		h.size = of.size
	}
	switch h.kind {
	case sparse:
		return m, fmt.Errorf("member %s: %w", Shown(m.Name), errSparse)
	case continued:
		return m, fmt.Errorf("member %s goes on from another volume: join the volumes into one tar", Shown(m.Name))
	}
	if w.maxName > 0 && len(m.Name) > w.maxName {
		return m, fmt.Errorf("the name of member %s has %d bytes: if it is to be trusted, raise "+
			"dataset.format.max_name_bytes above %d", Shown(m.Name), len(m.Name), w.maxName)
	}
	m.To, m.End = at+int(h.size), at+padded(h.size)
	if h.kind == regular || h.kind == old || h.kind == contiguous {
		m.Key, m.Part = Split(m.Name)
	}
	w.At = m.End
	return m, nil
}

// padded is a size up to whole blocks.
func padded(size int64) int { return int((size + block - 1) &^ (block - 1)) }

func isZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// Shown is a name for messages.
func Shown(name []byte) string {
	const most = 100
	if len(name) > most {
		return fmt.Sprintf("%q...", name[:most])
	}
	return fmt.Sprintf("%q", name)
}
