package tar

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Watch watches a scan for what no sample shows by itself: keys that come again, a missing end, and what is behind it.
func (o *File) Watch(take func(bytes int64) error) records.Watch {
	return &watch{limits: o.limits, take: take, end: -1}
}

type watch struct {
	limits limits
	take   func(bytes int64) error
	keys   keys
	end    int64 // where the zeros begin that end the archive; -1: they were not seen
}

// Cut sees what was cut.
func (w *watch) Cut(data []byte, at int64, row bool) error {
	if len(data) == block && data[0] == 0 && isZero(data) {
		if w.end < 0 {
			w.end = at
		}
		return nil
	}
	if w.end >= 0 {
		return fmt.Errorf("the archive ends at byte %d, and there is another one behind it: these are several tars in "+
			"one file; keep them in files of their own, or write them again as one", w.end)
	}
	if !row {
		return nil
	}
	walk := NewWalk(data)
	first, err := walk.Next()
	if err != nil {
		return err
	}
	switch again, err := w.keys.add(xxhash.Sum64(first.Key), w.limits.samples, w.take); {
	case err != nil:
		return err
	case again:
		return fmt.Errorf("sample %s has members further in front, too: all of a sample must stand together; write "+
			"the tar again, sorted by name", Shown(first.Key))
	}
	return nil
}

// End sees where the file ends.
func (w *watch) End(at int64) error {
	if w.end >= 0 || w.limits.noEnd {
		return nil
	}
	return fmt.Errorf("byte %d: the file ends without the zeros that end an archive: it was cut off, or its writer "+
		"was not closed; write it again, or set dataset.format.%s: true if it has all of its samples", at, optionNoEnd)
}

// keys are hashes of the keys that were seen, of 64 bits: of 4 million different ones two share one in one file of two
// million.
type keys struct {
	slots []uint64 // open addressing; 0: free
	n     int
}

// add adds a hash, and tells whether it was there.
func (k *keys) add(hash uint64, most int, take func(bytes int64) error) (again bool, err error) {
	hash = max(hash, 1)
	if 4*(k.n+1) > 3*len(k.slots) {
		if err := k.grow(take); err != nil {
			return false, err
		}
	}
	if k.put(hash) {
		return true, nil
	}
	if k.n++; k.n > most {
		return false, fmt.Errorf("the file has more than %d samples: raise dataset.format.%s, or write smaller tars",
			most, optionSamples)
	}
	return false, nil
}

func (k *keys) grow(take func(bytes int64) error) error {
	before := k.slots
	n := max(1024, 2*len(before))
	if take != nil {
		if err := take(8 * int64(n)); err != nil {
			return err
		}
	}
	k.slots = make([]uint64, n)
	for _, hash := range before {
		if hash != 0 {
			k.put(hash)
		}
	}
	return nil
}

// put puts a hash where it belongs, and tells whether it was there.
func (k *keys) put(hash uint64) bool {
	mask := uint64(len(k.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		switch k.slots[at] {
		case 0:
			k.slots[at] = hash
			return false
		case hash:
			return true
		}
	}
}
