// Package features adds up what sessions read of datasets: which features, how much of each, and which of them
// together. The master notes what each block that it plans gives workers to read, and keeps the sums in etcd
// (master/store), by namespace and directory; `penstock features` shows them. All of it is pure and bounded. A Reads is
// for one goroutine at a time.
package features

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// MaxFeatures and MaxSets bound what is kept of a directory: those read last.
	MaxFeatures = 10_000
	MaxSets     = 1_000
	// MaxColumns bounds the columns of files that are kept, and maxName the bytes of a name.
	MaxColumns = 10_000
	maxName    = 512
)

// Note is what sessions read at a time: all of the same features.
type Note struct {
	Features []string
	// BytesOf are those of each feature; nil: nothing is read yet.
	BytesOf               []int64
	Sessions, Rows, Bytes int64
	Columns               *pb.FileColumns // nil: as before
	UnixMs                int64
}

// Reads is what was read of a directory.
type Reads struct {
	sum    *pb.DatasetReads
	byName map[string]int // of sum.Features
	bySet  map[string]int // of sum.Sets, by their bits without zeros at the end
}

// Of is what a note says.
func Of(n Note) *Reads {
	r := empty()
	r.sum.SinceUnixMs, r.sum.ReadUnixMs, r.sum.Columns = n.UnixMs, n.UnixMs, n.Columns
	r.sum.Sessions, r.sum.Rows, r.sum.Bytes = n.Sessions, n.Rows, n.Bytes
	var set []byte
	for i, name := range n.Features {
		if len(name) > maxName {
			continue
		}
		f := r.feature(name)
		one := r.sum.Features[f]
		one.Sessions, one.Rows, one.ReadUnixMs = n.Sessions, n.Rows, n.UnixMs
		if n.BytesOf != nil {
			one.Bytes = max(one.GetBytes(), n.BytesOf[i]) // two of one name are one column
		}
		set = with(set, f)
	}
	if len(set) > 0 {
		r.addSet(set, &pb.FeatureSet{Sessions: n.Sessions, Rows: n.Rows, Bytes: n.Bytes, ReadUnixMs: n.UnixMs})
	}
	r.trim()
	return r
}

// Load takes what lies in etcd, nil if nothing does. What it says of features that it does not have is left out.
func Load(m *pb.DatasetReads) *Reads {
	r := empty()
	if m == nil {
		return r
	}
	r.sum = proto.CloneOf(m)
	sets := r.sum.GetSets()
	r.sum.Sets = nil
	for i, f := range r.sum.GetFeatures() {
		r.byName[f.GetName()] = i
	}
	for _, s := range sets {
		if bits := trimmed(s.GetFeatures()); len(bits) > 0 && last(bits) < len(r.sum.GetFeatures()) {
			r.addSet(bits, s)
		}
	}
	return r
}

func empty() *Reads {
	return &Reads{sum: &pb.DatasetReads{}, byName: map[string]int{}, bySet: map[string]int{}}
}

// Proto is the sum, which is the caller's until the next call.
func (r *Reads) Proto() *pb.DatasetReads { return r.sum }

// Add adds what another one has.
func (r *Reads) Add(o *Reads) {
	if since := o.sum.GetSinceUnixMs(); r.sum.GetSinceUnixMs() == 0 || since > 0 && since < r.sum.GetSinceUnixMs() {
		r.sum.SinceUnixMs = since
	}
	if o.sum.GetColumns() != nil && (r.sum.GetColumns() == nil || o.sum.GetReadUnixMs() >= r.sum.GetReadUnixMs()) {
		r.sum.Columns = o.sum.GetColumns()
	}
	r.sum.ReadUnixMs = max(r.sum.GetReadUnixMs(), o.sum.GetReadUnixMs())
	r.sum.Sessions += o.sum.GetSessions()
	r.sum.Rows += o.sum.GetRows()
	r.sum.Bytes += o.sum.GetBytes()
	r.sum.DroppedFeatures += o.sum.GetDroppedFeatures()
	r.sum.DroppedSets += o.sum.GetDroppedSets()
	at := make([]int, len(o.sum.GetFeatures()))
	for i, f := range o.sum.GetFeatures() {
		at[i] = r.feature(f.GetName())
		own := r.sum.Features[at[i]]
		own.Sessions += f.GetSessions()
		own.Rows += f.GetRows()
		own.Bytes += f.GetBytes()
		own.ReadUnixMs = max(own.GetReadUnixMs(), f.GetReadUnixMs())
	}
	for _, s := range o.sum.GetSets() {
		var set []byte
		for i := range Members(s) {
			set = with(set, at[i])
		}
		r.addSet(set, s)
	}
	r.trim()
}

// feature is the index of the feature of a name.
func (r *Reads) feature(name string) int {
	i, ok := r.byName[name]
	if !ok {
		i = len(r.sum.GetFeatures())
		r.byName[name] = i
		r.sum.Features = append(r.sum.Features, &pb.FeatureReads{Name: name})
	}
	return i
}

// addSet adds counts to those of a set of features.
func (r *Reads) addSet(set []byte, counts *pb.FeatureSet) {
	i, ok := r.bySet[string(set)]
	if !ok {
		i = len(r.sum.GetSets())
		r.bySet[string(set)] = i
		r.sum.Sets = append(r.sum.Sets, &pb.FeatureSet{Features: set})
	}
	own := r.sum.Sets[i]
	own.Sessions += counts.GetSessions()
	own.Rows += counts.GetRows()
	own.Bytes += counts.GetBytes()
	own.ReadUnixMs = max(own.GetReadUnixMs(), counts.GetReadUnixMs())
}

// trim keeps what may be kept.
func (r *Reads) trim() {
	if len(r.sum.GetFeatures()) > MaxFeatures {
		r.keepFeatures(MaxFeatures)
	}
	if len(r.sum.GetSets()) > MaxSets {
		r.keepSets(MaxSets)
	}
}

// Shrink drops an eighth of what is kept, sets first, and reports whether there was anything.
func (r *Reads) Shrink() bool {
	switch n, sets := len(r.sum.GetFeatures()), len(r.sum.GetSets()); {
	case sets > 0:
		r.keepSets(sets - (sets+7)/8)
	case r.sum.GetColumns() != nil:
		r.sum.Columns = nil
	case n > 0:
		r.keepFeatures(n - (n+7)/8)
	default:
		return false
	}
	return true
}

// keepFeatures drops those features that were read longest ago, and the sets that have one.
func (r *Reads) keepFeatures(n int) {
	all := r.sum.GetFeatures()
	kept := slices.SortedFunc(slices.Values(all), func(a, b *pb.FeatureReads) int {
		return cmp.Or(cmp.Compare(b.GetReadUnixMs(), a.GetReadUnixMs()), cmp.Compare(b.GetSessions(), a.GetSessions()),
			strings.Compare(a.GetName(), b.GetName()))
	})[:n]
	r.sum.DroppedFeatures += int64(len(all) - n)
	sets := r.sum.GetSets()
	r.sum.Features, r.sum.Sets = kept, nil
	clear(r.byName)
	clear(r.bySet)
	for i, f := range kept {
		r.byName[f.GetName()] = i
	}
	for _, s := range sets {
		var set []byte
		whole := true
		for i := range Members(s) {
			at, ok := r.byName[all[i].GetName()]
			if whole = ok; !ok {
				break
			}
			set = with(set, at)
		}
		if whole {
			r.addSet(set, s)
		} else {
			r.sum.DroppedSets++
		}
	}
}

// keepSets drops those sets that were read longest ago.
func (r *Reads) keepSets(n int) {
	sets := r.sum.GetSets()
	slices.SortStableFunc(sets, func(a, b *pb.FeatureSet) int {
		return cmp.Or(cmp.Compare(b.GetReadUnixMs(), a.GetReadUnixMs()), cmp.Compare(b.GetSessions(), a.GetSessions()),
			bytes.Compare(a.GetFeatures(), b.GetFeatures()))
	})
	r.sum.DroppedSets += int64(len(sets) - n)
	r.sum.Sets = slices.Clip(sets[:n])
	clear(r.bySet)
	for i, s := range r.sum.GetSets() {
		r.bySet[string(s.GetFeatures())] = i
	}
}

// Never lists the columns of files that no session read, in the files' order. One is read if a feature is below it, as
// a key of a map is.
func Never(m *pb.DatasetReads) []*pb.FileColumn {
	read := make(map[string]bool, len(m.GetFeatures()))
	for _, f := range m.GetFeatures() {
		for name := f.GetName(); ; {
			read[name] = true
			dot := strings.LastIndexByte(name, '.')
			if dot < 0 {
				break
			}
			name = name[:dot]
		}
	}
	var out []*pb.FileColumn
	for _, c := range m.GetColumns().GetColumns() {
		if !read[c.GetName()] {
			out = append(out, c)
		}
	}
	return out
}
