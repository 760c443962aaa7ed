package delta

import (
	"fmt"
)

// replay reconciles actions, which come newest first: of each file and deletion vector the newest counts.
type replay struct {
	root     root
	keep     func(int64) error
	seen     map[string]struct{}
	files    []*add
	metadata *metadata
	protocol *protocol
}

func newReplay(in root, keep func(int64) error) *replay {
	return &replay{root: in, keep: keep, seen: map[string]struct{}{}}
}

// apply takes an action that is older than all before it.
func (r *replay) apply(a *action) error {
	switch {
	case a.Protocol != nil && r.protocol == nil:
		r.protocol = a.Protocol
		return a.Protocol.check() // before anything that depends on it
	case a.MetaData != nil && r.metadata == nil:
		r.metadata = a.MetaData
		return r.keep(int64(2 * len(a.MetaData.Schema)))
	case a.Remove != nil:
		_, err := r.first(a.Remove.Path, a.Remove.Vector)
		return err
	case a.Add != nil:
		first, err := r.first(a.Add.Path, a.Add.Vector)
		if first && err == nil {
			r.files = append(r.files, a.Add)
			err = r.keep(a.Add.bytes())
		}
		return err
	}
	return nil
}

// first reports whether nothing was said yet of a file with a deletion vector. Paths are compared as what they lead to.
func (r *replay) first(path string, v *vector) (bool, error) {
	key := path
	if uri, err := r.root.resolve(path); err == nil {
		key = uri
	}
	key += "\x00" + v.id()
	if _, ok := r.seen[key]; ok {
		return false, nil
	}
	r.seen[key] = struct{}{}
	return true, r.keep(int64(len(key)) + 64)
}

// bytes is about what a file takes in memory, here and in a Snapshot.
func (a *add) bytes() int64 {
	n := 512 + 2*len(a.Path) + len(a.Stats)
	for name, value := range a.Partitions {
		if n += 2*len(name) + 128; value != nil {
			n += 2 * len(*value)
		}
	}
	if a.Vector != nil {
		n += 256 + 2*len(a.Vector.Place)
	}
	return int64(n)
}

// complete fails if the log lacks what each version must have.
func (r *replay) complete(version int64) error {
	switch {
	case r.protocol == nil:
		return fmt.Errorf("no action of the log up to version %d tells the protocol: the log is damaged; restore it",
			version)
	case r.metadata == nil:
		return fmt.Errorf("no action of the log up to version %d tells the table's metadata: the log is damaged; "+
			"restore it", version)
	}
	return nil
}
