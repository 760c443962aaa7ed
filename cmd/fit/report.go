package fit

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/fitted"
	"github.com/penstock-ml/penstock/internal/terminal"
)

// shownRows is how many values of a statistic are shown.
const shownRows = 8

// report is what was fitted, as --output json prints it.
type report struct {
	URI        string      `json:"uri"`
	Digest     string      `json:"digest"`
	Rows       int64       `json:"rows"`
	Passes     int         `json:"passes"`
	Seconds    float64     `json:"seconds"`
	Statistics []statistic `json:"statistics"`
}

// statistic is one in the file.
type statistic struct {
	Of        string `json:"of"`
	Statistic string `json:"statistic"`
	Kind      string `json:"kind"` // of the column
	// Values are by name, such as mean; of a vocabulary there is only its size. Infinities are texts, as JSON has none.
	Values map[string]any `json:"values,omitempty"`
	Size   *int64         `json:"size,omitempty"`
	Error  float64        `json:"error,omitempty"` // relative, of quantiles that are not exact
	text   string
}

func (r *fit) report(ctx context.Context) (*report, error) {
	out := &report{
		URI: r.out, Digest: r.known.Digest, Rows: r.known.Info.Rows, Passes: r.passes,
		Seconds: time.Since(r.began).Seconds(),
	}
	for i := range r.known.Entries {
		e := &r.known.Entries[i]
		s := statistic{Of: e.Of, Statistic: e.Name, Kind: e.Kind, Error: e.Error}
		if e.Name == fitted.Vocabulary {
			s.Size, s.text = &e.Rows, english.Plural(int(e.Rows), "value", "")
			out.Statistics = append(out.Statistics, s)
			continue
		}
		s.Values = map[string]any{}
		err := r.known.Each(ctx, e, func(row fitted.Row) error {
			s.add(row)
			return nil
		})
		if err != nil {
			return nil, err
		}
		out.Statistics = append(out.Statistics, s)
	}
	return out, nil
}

// add adds a row of the file.
func (s *statistic) add(row fitted.Row) {
	name := row.Name
	if name == "" {
		name = "value"
	}
	var v any
	switch row.Value.Kind {
	case fitted.AnInt:
		v = row.Value.Int
	case fitted.AFloat:
		if v = row.Value.Float; math.IsInf(row.Value.Float, 0) {
			v = fmt.Sprint(v)
		}
	case fitted.AText:
		v = string(row.Value.Text)
	default:
		if row.Count >= 0 {
			v = row.Count
		}
	}
	text := fmt.Sprint(v)
	if v == nil {
		text = "none"
	}
	s.Values[name] = v
	switch n := len(s.Values); {
	case v == int64(0) && row.Count == 0: // no nulls, say
	case n <= shownRows:
		s.text += fmt.Sprintf("%s=%s ", name, text)
	case n == shownRows+1:
		s.text += "..."
	}
}

func (r *fit) print(out io.Writer, output string) error {
	cli.Status(os.Stderr, "")
	all, err := r.report(r.cmd.Context())
	if err != nil {
		return err
	}
	if output == "json" {
		return cli.PrintJSON(out, all)
	}
	t := terminal.Table(out)
	for _, s := range all.Statistics {
		terminal.Printf(t, "%s\t%s\t%s\n", s.Statistic, s.Of, s.text)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = terminal.Printf(out, "\n%s rows, %s, %.1f s: wrote %s\nTo have specs take this very file:\n\n"+
		"fitted: {uri: %s, digest: %q}\n", humanize.Comma(all.Rows), english.Plural(all.Passes, "pass", "passes"),
		all.Seconds, all.URI, all.URI, all.Digest)
	return err
}
