package command

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/terminal"
	"github.com/penstock-ml/penstock/master/features"
	"github.com/penstock-ml/penstock/master/words"
)

// namedTogether is how many features of a set are named.
const namedTogether = 8

// counts are the cells of what is counted.
func counts(c features.Counted) terminal.Safe {
	return terminal.Cells("%s\t%s\t%s\t%s", humanize.Comma(c.GetSessions()), humanize.Comma(c.GetRows()),
		humanize.IBytes(uint64(max(0, c.GetBytes()))), humanize.Time(time.UnixMilli(c.GetReadUnixMs())))
}

// print prints a dataset for people.
func (f *readFeatures) print(w io.Writer, d *pb.DatasetReads) error {
	never := features.Never(d)
	if err := printSummary(w, d, never); err != nil {
		return err
	}
	t := terminal.Table(w)
	reads := slices.SortedStableFunc(slices.Values(d.GetFeatures()), features.MostRead)
	fmt.Fprintln(t, "\nFEATURE\tSESSIONS\tROWS\tBYTES\tLAST READ")
	for _, one := range reads[:f.most(len(reads))] {
		terminal.Printf(t, "%s\t%s\n", one.GetName(), counts(one))
	}
	f.rest(t, len(reads))
	sets := slices.SortedStableFunc(slices.Values(d.GetSets()), features.MostRead)
	fmt.Fprintln(t, "\nTOGETHER\tSESSIONS\tROWS\tBYTES\tLAST READ")
	for _, s := range sets[:f.most(len(sets))] {
		terminal.Printf(t, "%s\t%s\n", namesOf(d, s), counts(s))
	}
	f.rest(t, len(sets))
	if len(never) > 0 {
		fmt.Fprintln(t, "\nNEVER READ\tSTORED\tNOTE")
	}
	for _, c := range never[:f.most(len(never))] {
		terminal.Printf(t, "%s\t%s\t%s\n", c.GetName(), humanize.IBytes(uint64(max(0, c.GetBytes()))),
			c.GetUnsupported())
	}
	f.rest(t, len(never))
	return t.Flush()
}

// most is how many of so many are printed.
func (f *readFeatures) most(n int) int {
	if f.limit <= 0 {
		return n
	}
	return min(n, f.limit)
}

func (f *readFeatures) rest(w io.Writer, n int) {
	if more := n - f.most(n); more > 0 {
		terminal.Printf(w, "and %s more; --limit 0 prints all\n", humanize.Comma(int64(more)))
	}
}

// namesOf names the features of a set, at most a few.
func namesOf(d *pb.DatasetReads, s *pb.FeatureSet) string {
	var names []string
	n := 0
	for i := range features.Members(s) {
		if n++; n <= namedTogether {
			names = append(names, terminal.Quoted(d.GetFeatures()[i].GetName()))
		}
	}
	out := strings.Join(names, ", ")
	if n > namedTogether {
		out += fmt.Sprintf(" and %s more", humanize.Comma(int64(n-namedTogether)))
	}
	return out
}

// printSummary prints what is said of a dataset as a whole.
func printSummary(w io.Writer, d *pb.DatasetReads, never []*pb.FileColumn) error {
	t := terminal.Table(w)
	terminal.Printf(t, "dataset\t%s", d.GetPrefix())
	if n := d.GetPrefixes(); n > 1 {
		terminal.Printf(t, ", of which %d directories were read", n)
	}
	terminal.Printf(t, "\nread\tby %s since %s, last %s: %s rows, %s\n",
		english.Plural(int(d.GetSessions()), "session", ""),
		time.UnixMilli(d.GetSinceUnixMs()).Format(time.DateTime), humanize.Time(time.UnixMilli(d.GetReadUnixMs())),
		humanize.Comma(d.GetRows()), words.Size(float64(d.GetBytes())))
	columns := d.GetColumns().GetColumns()
	all, unread := int64(0), int64(0)
	for _, c := range columns {
		all += c.GetBytes()
	}
	for _, c := range never {
		unread += c.GetBytes()
	}
	files := english.Plural(int(d.GetColumns().GetFiles()), "file", "")
	switch n := len(columns); {
	case n > 0 && len(never) == 0:
		terminal.Printf(t, "columns\tall %d were read, of %s looked at\n", n, files)
	case n > 0:
		terminal.Printf(t, "columns\t%d of %d were read, of %s looked at; the others are %s of the %s stored there\n",
			n-len(never), n, files, words.Size(float64(unread)), words.Size(float64(all)))
	}
	if more := d.GetColumns().GetMore(); more > 0 {
		terminal.Printf(t, "\t%d columns more are not looked at\n", more)
	}
	if f, s := d.GetDroppedFeatures(), d.GetDroppedSets(); f > 0 || s > 0 {
		terminal.Printf(t, "left out\t%s features and %s sets that were read longest ago\n", humanize.Comma(f),
			humanize.Comma(s))
	}
	if orders := features.OrdersOf(d); orders != nil {
		now, then := orders.Now, orders.Ordered
		terminal.Printf(t, "a row group\tsessions want %s of it, and read %s in %.1f requests; with the columns as "+
			"--order prints them, %s in %.1f\n", words.Size(now.Wanted), words.Size(now.Bytes), now.Requests,
			words.Size(then.Bytes), then.Requests)
	}
	return t.Flush()
}

// printOrder prints the names of columns in the order in which they should lie.
func printOrder(w io.Writer, d *pb.DatasetReads) error {
	l := features.LayoutOf(d)
	if !l.Known() {
		return fmt.Errorf("%s: nothing is known of what is read together; read it in a session first", d.GetPrefix())
	}
	for _, c := range l.Order() {
		if _, err := terminal.Printf(w, "%s\n", d.GetColumns().GetColumns()[c].GetName()); err != nil {
			return fmt.Errorf("print the order: %w", err)
		}
	}
	return nil
}
