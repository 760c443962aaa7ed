package command

import (
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/features"
)

// readDataset is a dataset as --output json prints it.
type readDataset struct {
	Prefix      string    `json:"prefix"`
	Directories uint32    `json:"directories"`
	Since       time.Time `json:"since"`
	readCounts
	*datasetDetails
}

// readCounts are those of a dataset, a feature or a set.
type readCounts struct {
	Sessions int64     `json:"sessions"`
	Rows     int64     `json:"rows"`
	Bytes    int64     `json:"bytes"`
	LastRead time.Time `json:"last_read"`
}

// datasetDetails are what is told of one dataset alone.
type datasetDetails struct {
	Features        []readFeature   `json:"features"`
	Sets            []readSet       `json:"sets"`
	Never           []unreadColumn  `json:"never"`
	Columns         int             `json:"columns"` // that were looked at
	DroppedFeatures int64           `json:"dropped_features"`
	DroppedSets     int64           `json:"dropped_sets"`
	Order           *foretoldOrders `json:"order,omitempty"`
}

type readFeature struct {
	Name string `json:"name"`
	readCounts
}

type readSet struct {
	Features []int `json:"features"` // by their place among the dataset's
	readCounts
}

type unreadColumn struct {
	Name        string `json:"name"`
	StoredBytes int64  `json:"stored_bytes"`
	Unsupported string `json:"unsupported,omitempty"`
}

// foretoldOrders are what is read of a row group.
type foretoldOrders struct {
	Now     features.Cost `json:"now"`
	Ordered features.Cost `json:"ordered"` // with the columns as --order prints them
}

func countsOf(c counted) readCounts {
	return readCounts{c.GetSessions(), c.GetRows(), c.GetBytes(), time.UnixMilli(c.GetReadUnixMs()).UTC()}
}

// datasetOf is a dataset, with or without all details.
func datasetOf(d *pb.DatasetReads, details bool) readDataset {
	out := readDataset{
		Prefix: d.GetPrefix(), Directories: d.GetPrefixes(), Since: time.UnixMilli(d.GetSinceUnixMs()).UTC(),
		readCounts: countsOf(d),
	}
	if !details {
		return out
	}
	more := &datasetDetails{
		Features: []readFeature{}, Sets: []readSet{}, Never: []unreadColumn{},
		Columns:         len(d.GetColumns().GetColumns()),
		DroppedFeatures: d.GetDroppedFeatures(), DroppedSets: d.GetDroppedSets(),
	}
	for _, f := range d.GetFeatures() {
		more.Features = append(more.Features, readFeature{f.GetName(), countsOf(f)})
	}
	for _, s := range slices.SortedStableFunc(slices.Values(d.GetSets()), mostRead) {
		more.Sets = append(more.Sets, readSet{slices.Collect(features.Members(s)), countsOf(s)})
	}
	for _, c := range features.Never(d) {
		more.Never = append(more.Never, unreadColumn{c.GetName(), c.GetBytes(), c.GetUnsupported()})
	}
	if l := features.LayoutOf(d); l.Known() {
		more.Order = &foretoldOrders{l.Cost(nil, storage.Reading{}), l.Cost(l.Order(), storage.Reading{})}
	}
	out.datasetDetails = more
	return out
}
