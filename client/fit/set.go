package fit

import (
	"encoding/binary"
	"slices"
)

// set counts the distinct values of a column. What does not fit in memory is in sorted runs. If it may round, it has at
// most limit exact values: should there be more, all are rounded (keys.go). That depends on the number of distinct
// values alone, so that no order of them changes what a set is in the end.
type set struct {
	column int
	folder *folder
	budget *budget
	held   int64 // bytes of the budget

	numbers *intTable // one of both
	texts   *textTable
	isInts  bool

	runs    []run
	limit   uint64 // 0: never rounds
	rounded bool
	known   uint64 // distinct values, when the runs were last one
}

// fanIn is how many runs of a level become one of the next.
const fanIn = 16

// table is what both kinds of tables can do.
type table interface {
	len() int
	bytes() int64
	grownBytes() int64 // while grow works
	grow()
	sorted() source
	clear()
}

func newSet(column int, texts, ints bool, limit uint64, f *folder, b *budget) *set {
	s := &set{column: column, folder: f, budget: b, isInts: ints, limit: limit}
	if texts {
		s.texts = newTextTable()
	} else {
		s.numbers = newIntTable()
	}
	s.settle()
	return s
}

func (s *set) table() table {
	if s.texts != nil {
		return s.texts
	}
	return s.numbers
}

// settle accounts for what the table has, whether there is as much or not.
func (s *set) settle() {
	held := s.table().bytes()
	s.budget.settle(s.held, held)
	s.held = held
}

// ask asks for memory for the table.
func (s *set) ask(bytes int64) bool {
	if !s.budget.change(s.held, bytes) {
		return false
	}
	s.held = bytes
	return true
}

// makeRoom makes the table larger, or empties it.
func (s *set) makeRoom() error {
	if t := s.table(); s.ask(t.grownBytes()) {
		t.grow()
		s.settle()
		return nil
	}
	return s.spill()
}

// addKeys counts keys of numbers. It may change them.
func (s *set) addKeys(keys []uint64) error {
	for len(keys) > 0 {
		if s.numbers.full() {
			if err := s.makeRoom(); err != nil {
				return err
			}
		}
		part := keys[:min(batch, len(keys))]
		keys = keys[len(part):]
		if s.rounded {
			for i, k := range part {
				part[i] = roundKey(k, s.isInts)
			}
		}
		s.numbers.add(part)
		if s.mayRound() && uint64(s.numbers.len()) > s.limit {
			if err := s.round(); err != nil {
				return err
			}
		}
	}
	return nil
}

// addTexts counts texts, of which text i is data[offsets[i]:offsets[i+1]], unless it is a null.
func (s *set) addTexts(data []byte, offsets []int32, null func(i int) bool) error {
	for from := 0; from < len(offsets)-1; from += batch {
		part := offsets[from:min(from+batch+1, len(offsets))]
		s.texts.look(data, part)
		for i, to := range part[1:] {
			if null(from + i) {
				continue
			}
			if text := data[part[i]:to]; !s.texts.count(text, s.texts.hashes[i]) {
				if err := s.insert(text, s.texts.hashes[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// insert makes room for a text.
func (s *set) insert(text []byte, hash uint32) error {
	if s.texts.full() {
		if err := s.makeRoom(); err != nil {
			return err
		}
	}
	block := s.texts.room(text)
	if block > 0 && !s.ask(s.texts.bytes()+block) {
		if err := s.spill(); err != nil {
			return err
		}
		block = s.texts.room(text)
	}
	s.texts.insert(text, hash, block)
	if block > 0 {
		s.settle() // an empty table takes any one text
	}
	return nil
}

// spill moves what the table has to a run.
func (s *set) spill() error {
	t := s.table()
	if t.len() == 0 {
		return nil
	}
	r, err := writeRun(s.folder.dir, s.folder.name(s.column), 0, t.sorted())
	if err != nil {
		return err
	}
	t.clear()
	s.settle()
	s.runs = append(s.runs, r)
	if err := s.mergeLevels(); err != nil {
		return err
	}
	if s.mayRound() && s.keys() > max(s.limit, 2*s.known) {
		return s.decide()
	}
	return nil
}

func (s *set) mayRound() bool { return s.limit > 0 && !s.rounded }

// keys is how many the runs have, with those that are in several.
func (s *set) keys() (n uint64) {
	for _, r := range s.runs {
		n += r.Keys
	}
	return n
}

// decide finds how many distinct values there are, and rounds them if they are too many.
func (s *set) decide() error {
	if err := s.compact(s.runs, nil); err != nil {
		return err
	}
	if s.known = s.keys(); s.known > s.limit {
		return s.round()
	}
	return nil
}

// round rounds all values, and those to come.
func (s *set) round() error {
	if err := s.compact(s.runs, func(key []byte) []byte {
		return binary.BigEndian.AppendUint64(nil, roundKey(binary.BigEndian.Uint64(key), s.isInts))
	}); err != nil {
		return err
	}
	s.rounded = true
	return nil
}

// mergeLevels merges runs of a level that are many.
func (s *set) mergeLevels() error {
	for level := 0; ; level++ {
		var of []run
		higher := false
		for _, r := range s.runs {
			if r.Level == level {
				of = append(of, r)
			}
			higher = higher || r.Level > level
		}
		if len(of) >= fanIn {
			if err := s.merge(of, nil, nil, level+1); err != nil {
				return err
			}
		} else if !higher {
			return nil
		}
	}
}

// compact makes one run of all, and of what the table has.
func (s *set) compact(runs []run, mapped func([]byte) []byte) error {
	level := 0
	for _, r := range runs {
		level = max(level, r.Level)
	}
	t := s.table()
	if err := s.merge(runs, t.sorted(), mapped, level); err != nil {
		return err
	}
	t.clear()
	s.settle()
	return nil
}

// merge replaces runs, and what a table has, by one run.
func (s *set) merge(runs []run, more source, mapped func([]byte) []byte, level int) error {
	m, done, err := mergeRuns(s.folder.dir, runs, more, mapped)
	if err != nil {
		return err
	}
	one, err := writeRun(s.folder.dir, s.folder.name(s.column), level, m)
	done()
	if err != nil {
		return err
	}
	left := []run{one}
	for _, r := range s.runs {
		if !slices.ContainsFunc(runs, func(o run) bool { return o.File == r.File }) {
			left = append(left, r)
		}
	}
	gone := slices.Clone(runs)
	s.runs = left
	return s.folder.drop(gone...)
}

// all shows all values, in their order. Nothing may be added after that. done closes the files.
func (s *set) all() (m source, done func(), err error) {
	if s.mayRound() && s.keys()+uint64(s.table().len()) > s.limit {
		if err := s.decide(); err != nil {
			return nil, nil, err
		}
	}
	t := s.table().sorted()
	if len(s.runs) == 0 {
		return t, func() {}, nil
	}
	return mergeRuns(s.folder.dir, s.runs, t, nil)
}

// release gives back the memory and the runs.
func (s *set) release() error {
	s.numbers, s.texts = nil, nil
	s.budget.settle(s.held, 0)
	s.held = 0
	runs := s.runs
	s.runs = nil
	return s.folder.drop(runs...)
}

// mergeRuns opens runs, and merges them with another source, if there is one.
func mergeRuns(dir string, runs []run, more source, mapped func([]byte) []byte) (*merged, func(), error) {
	var from []source
	var open []*runSource
	done := func() {
		for _, r := range open {
			r.close()
		}
	}
	for _, r := range runs {
		f, err := openRun(dir, r)
		if err != nil {
			done()
			return nil, nil, err
		}
		open, from = append(open, f), append(from, f)
	}
	if more != nil {
		from = append(from, more)
	}
	m, err := newMerged(from, mapped)
	if err != nil {
		done()
		return nil, nil, err
	}
	return m, done, nil
}
