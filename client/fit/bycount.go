package fit

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// byCount sorts values, which come in ascending order, by their counts, the greatest first; equal ones stay in order.
// Of these it keeps the first max, if that is not 0. What is too much for its memory goes to runs, whose keys are the
// counts' complements and the values.
type byCount struct {
	column int
	folder *folder
	memory int64
	max    uint64

	list  []placed
	texts []byte
	floor uint64 // what has no greater count is not among the first max
	runs  []run
}

// placed is a value, in texts.
type placed struct {
	count, at uint64
	length    uint32
}

const placedSize = 24

func (s *byCount) add(value []byte, count uint64) error {
	if count <= s.floor {
		return nil
	}
	if s.bytes()+int64(len(value)) > s.memory && len(s.list) > 0 {
		if err := s.shrink(); err != nil {
			return err
		}
	}
	s.list = append(s.list, placed{count, uint64(len(s.texts)), uint32(len(value))})
	s.texts = append(s.texts, value...)
	return nil
}

// bytes takes into account that slices grow ahead.
func (s *byCount) bytes() int64 { return 2 * (int64(len(s.list))*placedSize + int64(len(s.texts))) }

func (s *byCount) value(p placed) []byte { return s.texts[p.at:][:p.length] }

// sort sorts the values. Those with the same count lie in order.
func (s *byCount) sort() {
	slices.SortFunc(s.list, func(a, b placed) int {
		if a.count != b.count {
			return cmp.Compare(b.count, a.count)
		}
		return cmp.Compare(a.at, b.at)
	})
}

// shrink forgets what comes after the first max, or moves all to a run.
func (s *byCount) shrink() error {
	s.sort()
	if s.max > 0 && uint64(len(s.list)) >= s.max {
		s.list = s.list[:s.max]
		s.floor = s.list[s.max-1].count
		s.closeUp()
		if s.bytes() <= s.memory/2 {
			return nil
		}
		s.sort()
	}
	r, err := writeRun(s.folder.dir, s.folder.name(s.column), 0, &placedSource{of: s})
	if err != nil {
		return err
	}
	s.runs = append(s.runs, r)
	s.list, s.texts = s.list[:0], s.texts[:0]
	if len(s.runs) < fanIn {
		return nil
	}
	return s.mergeRuns()
}

// closeUp moves the values that are left together, in their order.
func (s *byCount) closeUp() {
	slices.SortFunc(s.list, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	n := uint64(0)
	for i, p := range s.list {
		s.list[i].at = n
		n += uint64(copy(s.texts[n:], s.value(p)))
	}
	s.texts = s.texts[:n]
}

// mergeRuns makes one of all runs, and keeps the first max.
func (s *byCount) mergeRuns() error {
	m, done, err := mergeRuns(s.folder.dir, s.runs, nil, nil)
	if err != nil {
		return err
	}
	r, err := writeRun(s.folder.dir, s.folder.name(s.column), 0, &first{source: m, left: s.max, all: s.max == 0})
	done()
	if err != nil {
		return err
	}
	old := s.runs
	s.runs = []run{r}
	return s.folder.drop(old...)
}

// each shows the values in their new order, with their counts.
func (s *byCount) each(take func(value []byte, count uint64) error) error {
	s.sort()
	m, done, err := mergeRuns(s.folder.dir, s.runs, &placedSource{of: s}, nil)
	if err != nil {
		return err
	}
	defer done()
	f := &first{source: m, left: s.max, all: s.max == 0}
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
	runs := s.runs
	s.list, s.texts, s.runs = nil, nil, nil
	return s.folder.drop(runs...)
}

// placedSource shows sorted values as keys of their order.
type placedSource struct {
	of *byCount
	n  int
	at []byte
}

func (s *placedSource) next() (bool, error) {
	if s.n == len(s.of.list) {
		return false, nil
	}
	p := s.of.list[s.n]
	s.n++
	s.at = append(binary.BigEndian.AppendUint64(s.at[:0], ^p.count), s.of.value(p)...)
	return true, nil
}

func (s *placedSource) key() []byte   { return s.at }
func (s *placedSource) count() uint64 { return 1 }

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
