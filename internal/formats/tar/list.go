package tar

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-ml/penstock/internal/formats/records"
)

const (
	// listVersion begins a list of DALI's wds2idx. Earlier ones lack the members' names, so they do not tell whether a
	// sample's members stand together.
	listVersion = "v1.2 "
	// listFields are what a list says of a member: its extension, where its bytes begin, how many there are, its name.
	listFields = 4
	// maxHeaders bounds the headers of a member, and what stands in front of them.
	maxHeaders = 16 << 10
)

// Lists are the names that wds2idx gives, or that users do.
func (o *File) Lists(name string) []string {
	return []string{strings.TrimSuffix(name, path.Ext(name)) + ".idx", name + ".idx"}
}

// ReadList reads what wds2idx writes: a line for each sample, with all of its members.
func (o *File) ReadList(list []byte, take func(int64) error, found func(records.Record) error) error {
	first, list, _ := bytes.Cut(list, []byte("\n"))
	count, ok := strings.CutPrefix(string(first), listVersion)
	samples, err := strconv.Atoi(count)
	if !ok || err != nil {
		return fmt.Errorf("it begins with %.20q, and not with %q and a number: it is no list of wds2idx, or one "+
			"of an earlier DALI", first, listVersion)
	}
	l := lister{limits: o.limits, take: take, keys: keys{}}
	n := 0
	for ; len(list) > 0; n++ {
		var line []byte
		line, list, _ = bytes.Cut(list, []byte("\n"))
		r, err := l.sample(line)
		if err == nil {
			err = found(r)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n+2, err)
		}
	}
	if n != samples {
		return fmt.Errorf("it has %d samples, and its first line says %d: it is cut off", n, samples)
	}
	return nil
}

// lister reads samples of a list.
type lister struct {
	limits limits
	take   func(int64) error
	keys   keys
	end    int64 // of the last member
}

// sample reads a line.
func (l *lister) sample(line []byte) (r records.Record, err error) {
	r.At = l.end
	var key []byte
	members := 0
	for fields := bytes.Fields(line); len(fields) > 0; members++ {
		if len(fields) < listFields {
			return r, errors.New("it does not have four fields for each member, or a name has blanks")
		}
		of, begins, err := l.member(fields)
		switch {
		case err != nil:
			return r, err
		case members == 0:
			key, r.By, r.Head = of, begins-block, begins
		case !bytes.Equal(of, key):
			return r, fmt.Errorf("member %s is not of the line's sample, %s", Shown(fields[3]), Shown(key))
		}
		fields = fields[listFields:]
	}
	if members == 0 || members > l.limits.members {
		return r, fmt.Errorf("a sample has %d members", members)
	}
	again, err := l.keys.add(xxhash.Sum64(key), l.limits.samples, l.take)
	if err == nil && again {
		err = fmt.Errorf("sample %s stands further in front, too", Shown(key))
	}
	r.End = l.end
	return r, err
}

// member reads what a list says of a member, which must stand behind the one before.
func (l *lister) member(fields [][]byte) (key []byte, begins int64, err error) {
	begins, err1 := strconv.ParseInt(string(fields[1]), 10, 64)
	size, err2 := strconv.ParseInt(string(fields[2]), 10, 64)
	name := fields[3]
	switch key, _ = Split(name); {
	case err1 != nil || err2 != nil || size < 0 || size > maxSize || begins > maxSize:
		return nil, 0, fmt.Errorf("member %s: where it begins and its size are no numbers, or its name has blanks",
			Shown(name))
	case key == nil || len(name) > l.limits.name:
		return nil, 0, fmt.Errorf("member %s is no part of a sample, or its name is too long", Shown(name))
	case begins%block != 0 || begins-block < l.end || begins-l.end > maxHeaders:
		return nil, 0, fmt.Errorf("member %s does not begin behind the one before, and its header", Shown(name))
	}
	l.end = begins + int64(padded(size))
	return key, begins, nil
}

// Begins reports whether the first member is a sample's, with whose bytes data ends.
func (o *File) Begins(data []byte, _ records.Record) bool {
	w := Walk{Data: data, maxName: o.limits.name}
	m, err := w.Next()
	return err == nil && m.Key != nil && m.From == len(data)
}

// Ends fails unless there are the zeros that end an archive, and nothing else.
func (o *File) Ends(data []byte) error {
	if !isZero(data) || len(data)%block != 0 || len(data) == 0 && !o.limits.noEnd {
		return errors.New("behind its last sample there is something else than the zeros that end an archive")
	}
	return nil
}
