package features

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// Report is what was read of a directory for programs, as JSON: `penstock features` prints it, and the dashboard has it.
type Report struct {
	Prefix      string    `json:"prefix"`
	Directories uint32    `json:"directories"`
	Since       time.Time `json:"since"`
	ReportCounts
	*ReportDetails
}

// ReportCounts are those of a dataset, a feature or a set.
type ReportCounts struct {
	Sessions int64     `json:"sessions"`
	Rows     int64     `json:"rows"`
	Bytes    int64     `json:"bytes"`
	LastRead time.Time `json:"last_read"`
}

// ReportDetails are what is told of one dataset alone.
type ReportDetails struct {
	Features        []ReportFeature `json:"features"`
	Sets            []ReportSet     `json:"sets"`
	Never           []ReportColumn  `json:"never"`
	Columns         int             `json:"columns"` // that were looked at
	DroppedFeatures int64           `json:"dropped_features"`
	DroppedSets     int64           `json:"dropped_sets"`
	Order           *ReportOrders   `json:"order,omitempty"`
}

// ReportFeature is one feature.
type ReportFeature struct {
	Name string `json:"name"`
	ReportCounts
}

// ReportSet is all that some sessions read, together.
type ReportSet struct {
	Features []int `json:"features"` // by their place among the dataset's
	ReportCounts
}

// ReportColumn is one that was never read.
type ReportColumn struct {
	Name        string `json:"name"`
	StoredBytes int64  `json:"stored_bytes"`
	Unsupported string `json:"unsupported,omitempty"`
}

// ReportOrders are what is read of a row group.
type ReportOrders struct {
	Now     Cost `json:"now"`
	Ordered Cost `json:"ordered"` // with the columns as --order prints them
}

// Counted is what has counts: a dataset, a feature or a set.
type Counted interface {
	GetSessions() int64
	GetRows() int64
	GetBytes() int64
	GetReadUnixMs() int64
}

// MostRead orders by rows, and what has as many by bytes and sessions.
func MostRead[C Counted](a, b C) int {
	return cmp.Or(cmp.Compare(b.GetRows(), a.GetRows()), cmp.Compare(b.GetBytes(), a.GetBytes()),
		cmp.Compare(b.GetSessions(), a.GetSessions()))
}

func countsOf(c Counted) ReportCounts {
	return ReportCounts{c.GetSessions(), c.GetRows(), c.GetBytes(), time.UnixMilli(c.GetReadUnixMs()).UTC()}
}

// ReportOf reports what was read of a directory, with or without all details.
func ReportOf(d *pb.DatasetReads, details bool) Report {
	out := Report{
		Prefix: d.GetPrefix(), Directories: d.GetPrefixes(), Since: time.UnixMilli(d.GetSinceUnixMs()).UTC(),
		ReportCounts: countsOf(d),
	}
	if !details {
		return out
	}
	more := &ReportDetails{
		Features: []ReportFeature{}, Sets: []ReportSet{}, Never: []ReportColumn{},
		Columns:         len(d.GetColumns().GetColumns()),
		DroppedFeatures: d.GetDroppedFeatures(), DroppedSets: d.GetDroppedSets(),
	}
	for _, f := range d.GetFeatures() {
		more.Features = append(more.Features, ReportFeature{f.GetName(), countsOf(f)})
	}
	for _, s := range slices.SortedStableFunc(slices.Values(d.GetSets()), MostRead) {
		more.Sets = append(more.Sets, ReportSet{slices.Collect(Members(s)), countsOf(s)})
	}
	for _, c := range Never(d) {
		more.Never = append(more.Never, ReportColumn{c.GetName(), c.GetBytes(), c.GetUnsupported()})
	}
	out.ReportDetails = more
	return out
}

// OrdersOf foretells what workers read of a row group, with the columns as they are and as Order has them; nil: too
// little is known. It may take seconds.
func OrdersOf(d *pb.DatasetReads) *ReportOrders {
	l := LayoutOf(d)
	if !l.Known() {
		return nil
	}
	return &ReportOrders{l.Cost(nil, storage.Reading{}), l.Cost(l.Order(), storage.Reading{})}
}
