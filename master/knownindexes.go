package master

import (
	"fmt"

	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/lru"
)

const (
	// indexBytes bounds the indexes that are kept in memory.
	indexBytes = 128 << 20
	// digestBytes bounds the digests that are remembered of indexes, kept or not, and digestCost is what one takes.
	digestBytes, digestCost = 32 << 20, 512
)

// knownIndexes are those that were used lately, by which others are judged. A file whose ETag is the same has the same
// index at any time, so one is believed if
//
//   - no earlier block of the session had another one of the file (recordedIndex), and
//   - none with another digest is known. A worker's takes the place of one that was only found beside the data.
//
// One that a worker made by another tool's list of records is judged, and not known afterwards.
//
// They may be used by many goroutines at once.
type knownIndexes struct {
	kept    *lru.Cache[indexKey, *index.Index]
	digests *lru.Cache[indexKey, indexSum]
}

// indexSum is the digest of an index that was used.
type indexSum struct {
	digest string
	made   bool // by a worker, and not only found beside the data, where somebody else may have put it
}

func newKnownIndexes() *knownIndexes {
	return &knownIndexes{
		kept: lru.New[indexKey, *index.Index](indexBytes), digests: lru.New[indexKey, indexSum](digestBytes),
	}
}

// get returns an index that is kept and believed; nil: there is none. byWorker asks for one that a worker made.
func (known *knownIndexes) get(key indexKey, before recordedIndex, byWorker bool) *index.Index {
	kept, ok := known.kept.Get(key)
	if !ok || before.admits(kept.Digest()) != nil {
		return nil
	}
	if sum, _ := known.digests.Get(key); byWorker && !sum.made {
		return nil
	}
	return kept
}

// add takes in an index that was found, or that a worker made, if it is believed. It reports whether another one had
// been found before that a worker makes.
func (known *knownIndexes) add(key indexKey, recorded recordedIndex, x *index.Index, byWorker bool) (
	other bool, err error,
) {
	if err := recorded.admits(x.Digest()); err != nil {
		return false, err
	}
	of := indexSum{string(x.Digest()), byWorker}
	before := known.digests.Add(key, of, digestCost)
	other = before.digest != of.digest
	if other && (before.made || !byWorker) {
		return false, &otherIndexError{before.digest, of.digest}
	}
	if byWorker && !before.made {
		known.digests.Put(key, of, digestCost)
	}
	known.kept.Put(key, x, int64(len(x.Bytes()))+digestCost)
	return other, nil
}

// admits fails if an index is not the one that the session or a worker's reading of the file tells.
func (known *knownIndexes) admits(key indexKey, recorded recordedIndex, x *index.Index) error {
	if err := recorded.admits(x.Digest()); err != nil {
		return err
	}
	if sum, _ := known.digests.Get(key); sum.made {
		return recordedIndex(sum.digest).admits(x.Digest())
	}
	return nil
}

// recordedIndex is the digest of a file's index in an earlier block of the session; "": none is known.
type recordedIndex string

// admits fails if an index is another one.
func (before recordedIndex) admits(digest []byte) error {
	if before == "" || string(before) == string(digest) {
		return nil
	}
	return &otherIndexError{string(before), string(digest)}
}

// otherIndexError says that a file has another index than before, though its ETag is the same.
type otherIndexError struct{ before, now string }

func (e *otherIndexError) Error() string {
	return fmt.Sprintf("its index is another one than before (digest %.8x, and was %.8x), though the file's ETag is "+
		"the same: its bytes were changed, or it was indexed by another release", e.now, e.before)
}
