package tar

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-ml/penstock/internal/formats/records"
)

// Watch watches a scan for what no sample shows by itself: keys that come again, a missing end, and what is behind it.
func (o *File) Watch(take func(bytes int64) error) records.Watch {
	return &watch{limits: o.limits, take: take, keys: keys{}, end: -1}
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

// keyBytes is about what a key takes of memory.
const keyBytes = 20

// keys are hashes of the keys that were seen, of 64 bits: in one file of two million, of 4 million samples each, two
// different ones share one.
type keys map[uint64]struct{}

// add adds a hash, and tells whether it was there.
func (k keys) add(hash uint64, most int, take func(bytes int64) error) (again bool, err error) {
	if _, again = k[hash]; again {
		return true, nil
	}
	n := len(k)
	switch {
	case n == most:
		return false, fmt.Errorf("the file has more than %d samples: raise dataset.format.%s, or write smaller tars",
			most, optionSamples)
	case take != nil && n >= 1<<12 && n&(n-1) == 0: // as many again may come
		if err := take(keyBytes * int64(n)); err != nil {
			return false, err
		}
	}
	k[hash] = struct{}{}
	return false, nil
}
