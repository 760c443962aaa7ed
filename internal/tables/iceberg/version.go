package iceberg

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/times"
)

// version is a snapshot, and the schema that it is read by: a snapshot's own, but for the current one, of which columns
// may have been renamed since it was written.
type version struct {
	*snapshot
	schema int
}

// String names it, so that the same one is found again: "123", or "123-4" if it is read by the schema 4, which is not
// that with which it was written, as far as the metadata says.
func (v version) String() string {
	id := strconv.FormatInt(v.ID, 10)
	if v.Schema == nil || *v.Schema != v.schema {
		return id + "-" + strconv.Itoa(v.schema)
	}
	return id
}

var isVersion = regexp.MustCompile(`^(\d{1,19})(?:-(\d{1,9}))?$`)

// version finds what an address names.
func (m *metadata) version(named string) (version, error) {
	if named == "" {
		if m.Current == nil || *m.Current < 0 {
			return version{}, fmt.Errorf(
				"it has no current snapshot: write rows to it, or name a version behind an \"@\": %s",
				m.known())
		}
		return m.at(*m.Current, true)
	}
	if v, ok, err := m.pinned(named); ok || err != nil {
		return v, err
	}
	if r, ok := m.Refs[named]; ok {
		return m.at(r.ID, r.Type == "branch")
	}
	at, err := times.Parse(named)
	if err != nil {
		return version{}, fmt.Errorf("@%.200s is no version: %s", named, m.known())
	}
	id, err := m.before(at)
	if err != nil {
		return version{}, err
	}
	return m.at(id, false)
}

// pinned finds a version as String names it.
func (m *metadata) pinned(named string) (version, bool, error) {
	part := isVersion.FindStringSubmatch(named)
	if part == nil {
		return version{}, false, nil
	}
	i := slices.IndexFunc(m.Snapshots, func(s snapshot) bool { return strconv.FormatInt(s.ID, 10) == part[1] })
	if i < 0 {
		return version{}, false, nil
	}
	v, err := m.at(m.Snapshots[i].ID, false)
	if err == nil && part[2] != "" {
		v.schema, err = strconv.Atoi(part[2])
	}
	return v, true, err
}

// at is a snapshot, by its own schema or by the table's newest.
func (m *metadata) at(id int64, newest bool) (version, error) {
	s := m.snapshot(id)
	if s == nil {
		return version{}, fmt.Errorf("the snapshot %d has expired, or the metadata lost it: %s", id, m.known())
	}
	v := version{s, m.CurrentSchema}
	if s.Schema != nil && !newest {
		v.schema = *s.Schema
	}
	return v, nil
}

// before is the snapshot that was the current one at a time.
func (m *metadata) before(at time.Time) (int64, error) {
	ms := at.UnixMilli()
	found, latest := int64(-1), int64(-1)
	for _, e := range m.Log {
		if e.Time <= ms && e.Time >= latest {
			found, latest = e.ID, e.Time
		}
	}
	if latest >= 0 {
		return found, nil
	}
	if len(m.Log) == 0 {
		return 0, fmt.Errorf("its metadata does not say which snapshot was the current one at a time: %s", m.known())
	}
	oldest := slices.MinFunc(m.Log, func(a, b logEntry) int { return cmp.Compare(a.Time, b.Time) })
	return 0, fmt.Errorf("no snapshot is as old as %s: that of %s, %d, is the oldest that its metadata knows; "+
		"name a later time",
		at.Format(time.RFC3339), timeOf(oldest.Time), oldest.ID)
}

func timeOf(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// maxKnown is how many snapshots, and refs, a message names.
const maxKnown = 5

// known says which versions there are.
func (m *metadata) known() string {
	newestFirst := slices.SortedFunc(slices.Values(m.Snapshots), func(a, b snapshot) int {
		return -cmp.Compare(a.Time, b.Time)
	})
	var all []string
	for _, s := range newestFirst[:min(len(newestFirst), maxKnown)] {
		all = append(all, fmt.Sprintf("@%d of %s", s.ID, timeOf(s.Time)))
	}
	if more := len(newestFirst) - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d older ones", more))
	}
	refs := slices.Sorted(maps.Keys(m.Refs))
	for _, name := range refs[:min(len(refs), maxKnown)] {
		all = append(all, "@"+name)
	}
	if len(all) == 0 {
		return "it has no snapshots"
	}
	return "there are " + strings.Join(all, ", ")
}
