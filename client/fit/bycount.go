package fit

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// byCount sorts values, which come in ascending order, by their counts, the greatest first; equal ones stay in order.
// Of these it keeps the first max, if that is not 0. What is too much for its memory goes to runs, whose keys are the
// counts' complements and the values.
//
// Most values of most columns have a small count. They are in lists, one a count, which need no sorting.
type byCount struct {
	column int
	folder *folder
	memory int64
	max    uint64

	small [smallCounts][]byte // the values of a count, each behind its length
	n     [smallCounts]uint64 // how many
	great []placed
	texts []byte // theirs
	bytes int64  // of all
	floor uint64 // what has no greater count is not among the first max
	runs  []run
}

// placed is a value of a great count, in texts.
type placed struct {
	count, at uint64
	length    uint32
}

const (
	smallCounts = 64
	placedSize  = 24
)

func (s *byCount) add(value []byte, count uint64) error {
	if count <= s.floor {
		return nil
	}
	if 2*s.bytes > s.memory { // slices grow ahead
		if err := s.shrink(); err != nil {
			return err
		}
	}
	if count < smallCounts {
		at := len(s.small[count])
		s.small[count] = append(binary.AppendUvarint(s.small[count], uint64(len(value))), value...)
		s.n[count]++
		s.bytes += int64(len(s.small[count]) - at)
		return nil
	}
	s.great = append(s.great, placed{count, uint64(len(s.texts)), uint32(len(value))})
	s.texts = append(s.texts, value...)
	s.bytes += placedSize + int64(len(value))
	return nil
}

// shrink forgets what comes after the first max, and moves the rest to a run if it is still much.
func (s *byCount) shrink() error {
	if s.forget(); 4*s.bytes <= s.memory {
		return nil
	}
	r, err := writeRun(s.folder.dir, s.folder.name(s.column), 0, s.sorted())
	if err != nil {
		return err
	}
	s.runs = append(s.runs, r)
	s.great, s.texts, s.bytes = s.great[:0], s.texts[:0], 0
	for i := range s.small {
		s.small[i], s.n[i] = s.small[i][:0], 0
	}
	if len(s.runs) < fanIn {
		return nil
	}
	return s.mergeRuns()
}

// forget drops values of the counts that come after the first max, and sees to it that no more of them come.
func (s *byCount) forget() {
	if s.max == 0 {
		return
	}
	if uint64(len(s.great)) >= s.max {
		s.sort()
		s.great = s.great[:s.max]
		s.floor = s.great[s.max-1].count
		s.closeUp()
	}
	before := uint64(len(s.great))
	for count := smallCounts - 1; count > 0; count-- {
		if before >= s.max {
			s.bytes -= int64(len(s.small[count]))
			s.small[count], s.n[count] = nil, 0
			s.floor = max(s.floor, uint64(count))
			continue
		}
		if before += s.n[count]; before >= s.max {
			s.floor = uint64(count)
		}
	}
}

// sort sorts the values of great counts.
func (s *byCount) sort() {
	slices.SortFunc(s.great, func(a, b placed) int {
		if a.count != b.count {
			return cmp.Compare(b.count, a.count)
		}
		return cmp.Compare(a.at, b.at)
	})
}

// closeUp moves the values of great counts that are left together, in their order.
func (s *byCount) closeUp() {
	slices.SortFunc(s.great, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	n := uint64(0)
	for i, p := range s.great {
		s.great[i].at = n
		n += uint64(copy(s.texts[n:], s.texts[p.at:][:p.length]))
	}
	s.texts = s.texts[:n]
	s.bytes = int64(len(s.great))*placedSize + int64(n)
	for _, list := range s.small {
		s.bytes += int64(len(list))
	}
}

// mergeRuns makes one of all runs, and keeps the first max.
func (s *byCount) mergeRuns() error {
	m, done, err := mergeRuns(s.folder.dir, s.runs, nil, nil)
	if err != nil {
		return err
	}
	r, err := writeRun(s.folder.dir, s.folder.name(s.column), 0, s.first(m))
	done()
	if err != nil {
		return err
	}
	old := s.runs
	s.runs = []run{r}
	return s.folder.drop(old...)
}

func (s *byCount) first(m source) *first { return &first{source: m, left: s.max, all: s.max == 0} }

// each shows the values in their new order, with their counts.
func (s *byCount) each(take func(value []byte, count uint64) error) error {
	m, done, err := mergeRuns(s.folder.dir, s.runs, s.sorted(), nil)
	if err != nil {
		return err
	}
	defer done()
	f := s.first(m)
	for {
		ok, err := f.next()
		if err != nil || !ok {
			return err
		}
		key := f.key()
		if err := take(key[8:], ^binary.BigEndian.Uint64(key)); err != nil {
			return err
		}
	}
}

func (s *byCount) release() error {
	runs, f := s.runs, s.folder
	*s = byCount{}
	return f.drop(runs...)
}

// sorted shows what is in memory.
func (s *byCount) sorted() source {
	s.sort()
	return &byCountSource{of: s, great: s.great, small: smallCounts}
}

// byCountSource shows values as keys of their order.
type byCountSource struct {
	of    *byCount
	great []placed
	small uint64 // the count of list, once great is empty
	list  []byte
	at    []byte
}

func (s *byCountSource) next() (bool, error) {
	if len(s.great) > 0 {
		p := s.great[0]
		s.great = s.great[1:]
		s.at = append(binary.BigEndian.AppendUint64(s.at[:0], ^p.count), s.of.texts[p.at:][:p.length]...)
		return true, nil
	}
	for len(s.list) == 0 {
		if s.small--; s.small == 0 {
			s.small = 1 // and stay there
			return false, nil
		}
		s.list = s.of.small[s.small]
	}
	length, n := binary.Uvarint(s.list)
	value := s.list[n:][:length]
	s.list = s.list[n+len(value):]
	s.at = append(binary.BigEndian.AppendUint64(s.at[:0], ^s.small), value...)
	return true, nil
}

func (s *byCountSource) key() []byte   { return s.at }
func (s *byCountSource) count() uint64 { return 1 }

// first shows the first few keys of a source.
type first struct {
	source
	left uint64
	all  bool
}

func (f *first) next() (bool, error) {
	if f.left == 0 && !f.all {
		return false, nil
	}
	f.left--
	return f.source.next()
}
