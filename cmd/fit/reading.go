package fit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/client"
	clientfit "github.com/penstock-ml/penstock/client/fit"
	"github.com/penstock-ml/penstock/cmd/reach"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/fitted"
)

// statusEvery is how often progress is shown.
const statusEvery = 200 * time.Millisecond

// reading is one pass.
type reading struct {
	*fit
	pass   *spec.Pass
	number int
	rows   int64 // that it has read, also before it was stopped
}

// run makes the pass, and adds what it comes to to the fitted file.
func (p *reading) run(ctx context.Context, fleet *reach.Fleet) (err error) {
	id, err := identity(p.pass, p.info(), p.exact)
	if err != nil {
		return err
	}
	folder := filepath.Join(p.folder, "pass-"+id[:16])
	counts, err := clientfit.Open(p.columns(), clientfit.Options{
		Folder: folder, Memory: int64(p.memory), MaxExact: p.exact, Identity: id,
	})
	if err != nil {
		return err
	}
	err = p.read(ctx, fleet, counts)
	if err == nil {
		err = p.hasValues(counts)
	}
	if err != nil {
		return errors.Join(err, counts.Close())
	}
	cli.Status(os.Stderr, "pass %d of %d: writing", p.number, p.passes)
	if err := errors.Join(p.write(ctx, counts), counts.Close()); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}

// columns are what is computed of which columns.
func (p *reading) columns() []clientfit.Column {
	out := make([]clientfit.Column, len(p.pass.Asked))
	for i, asked := range p.pass.Asked {
		c := clientfit.Column{
			Name: asked.Column, Of: asked.Statistics[0].Of, Kind: asked.Type.Kind, List: asked.Type.List,
			Unsigned: asked.Unsigned, Present: asked.Present,
		}
		seen := map[string]bool{}
		for _, s := range asked.Statistics {
			of := fitted.Asked(s)
			if !seen[of.String()] {
				c.Statistics = append(c.Statistics, of)
			}
			seen[of.String()] = true
		}
		out[i] = c
	}
	return out
}

// read takes all rows.
func (p *reading) read(ctx context.Context, fleet *reach.Fleet, counts *clientfit.Fit) (err error) {
	logger, err := cli.Logger(p.cmd, os.Stderr)
	if err != nil {
		return err
	}
	cfg := client.Config{Spec: p.pass.Spec, Session: "fit-" + rand.Text()[:10], Logger: logger}
	if p.pass.Spec.GetCode() != nil {
		cfg.Code = p.code
	}
	if state, ok := counts.Restored(); ok {
		was := &pb.State{}
		if err := proto.Unmarshal(state, was); err != nil {
			return fmt.Errorf("the checkpoint in %s: %w; remove it to begin anew", p.folder, err)
		}
		cfg.Restore = []*pb.State{was}
	}
	defer func() { err = errors.Join(err, fleet.Delete(ctx, cfg.Session)) }()
	session, err := fleet.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	if hex.EncodeToString(session.State().GetDatasetDigest()) != p.info().Dataset {
		return errors.New("the dataset's files changed since the fit began: start it again, to fit those there are now")
	}
	if err := p.calls(session.Info().GetSpec()); err != nil {
		return err
	}
	before, began := session.State().GetRows(), time.Now()
	shown, saved := time.Time{}, began
	for {
		b, err := session.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = counts.AddBatch(b)
		}
		if err != nil {
			return err
		}
		if time.Since(shown) > statusEvery {
			shown = time.Now()
			p.progress(session.State().GetRows(), before, began)
		}
		if time.Since(saved) > p.checkpoint {
			if err := save(counts, session); err != nil {
				return err
			}
			saved = time.Now()
		}
	}
	p.rows = session.State().GetRows()
	return nil
}

func save(counts *clientfit.Fit, session *client.Session) error {
	state, err := proto.Marshal(session.State())
	if err != nil {
		return err
	}
	return counts.Checkpoint(state)
}

func (p *reading) progress(rows, before int64, began time.Time) {
	rate := float64(rows-before) / time.Since(began).Seconds()
	cli.Status(os.Stderr, "pass %d of %d: %s rows, %s rows/s", p.number, p.passes, humanize.Comma(rows),
		humanize.Comma(int64(rate)))
}

// hasValues refuses vocabularies of nothing: models would take every value for an unknown one.
func (p *reading) hasValues(counts *clientfit.Fit) error {
	without, err := counts.Without()
	if err != nil || len(without) == 0 {
		return err
	}
	of, filter := strings.Join(without, ", "), p.pass.Spec.GetFilter()
	switch {
	case p.rows > 0 && filter == "":
		return fmt.Errorf("vocabulary of %s: none of %d rows has a value; leave it out of the fit", of, p.rows)
	case p.rows > 0:
		return fmt.Errorf("vocabulary of %s: none of the %d rows that the filter %q keeps has a value; mend the "+
			"filter, or leave it out of the fit", of, p.rows, filter)
	case filter == "":
		return fmt.Errorf("vocabulary of %s: no row was read; name a dataset that has rows", of)
	}
	return fmt.Errorf("vocabulary of %s: no row passes the filter %q; mend the filter", of, filter)
}

// write adds the results to the fitted file.
func (p *reading) write(ctx context.Context, counts *clientfit.Fit) (err error) {
	next := p.file() + ".new"
	out, err := os.Create(next)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(next))
		}
	}()
	info := p.info()
	info.Rows, info.Functions = p.rows, p.functions
	w, err := fitted.NewWriter(out, info)
	if err == nil && p.known != nil {
		err = w.Copy(ctx, p.known.File)
	}
	if err == nil {
		err = counts.Write(ctx, w)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, p.file()); err != nil {
		return err
	}
	file, err := openFile(ctx, p.file(), p.out)
	if err == nil {
		p.use(ctx, file)
	}
	return err
}
