package delta

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

const (
	atOnce     = 64       // commits that are read at once
	atOnceSize = 16 << 20 // and their bytes, if they are several
)

// loader reads a log's files.
type loader struct {
	table  *table.Table
	memory table.Memory
}

// use makes room for files of so many bytes, and what is parsed of them.
func (l *loader) use(size int64) error { return l.memory.Use(3 * size) }

// commits hands on the actions of commits, in the order that these are given in, the last action of each first: what
// comes later overrides.
func (l *loader) commits(ctx context.Context, all []logFile, each func(*action) error) error {
	for len(all) > 0 {
		n, size := 0, int64(0)
		for n < len(all) && n < atOnce && (n == 0 || size+all[n].file.GetSize() <= atOnceSize) {
			size += all[n].file.GetSize()
			n++
		}
		if err := l.use(size); err != nil {
			return err
		}
		parsed := make([][]action, n)
		g, within := errgroup.WithContext(ctx)
		for i, c := range all[:n] {
			g.Go(func() (err error) {
				parsed[i], err = l.lines(within, c.file)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for i, c := range all[:n] {
			if err := backwards(parsed[i], c.version, each); err != nil {
				return fmt.Errorf("%s: %w", c.file.GetUri(), err)
			}
		}
		all = all[n:]
	}
	return nil
}

func backwards(actions []action, version int64, each func(*action) error) error {
	for i := len(actions) - 1; i >= 0; i-- {
		actions[i].version = version
		if err := each(&actions[i]); err != nil {
			return err
		}
	}
	return nil
}

// lines reads a file of an action a line.
func (l *loader) lines(ctx context.Context, f *pb.File) ([]action, error) {
	content := make([]byte, f.GetSize())
	if err := l.table.Storage.ReadAt(ctx, l.table.Profile, f, content, 0); err != nil {
		return nil, err
	}
	actions, err := parseLines(content)
	switch {
	case err != nil && strings.HasSuffix(f.GetUri(), ".compacted.json"):
		return nil, fmt.Errorf("%s: %w, or remove it, since its commits are there", f.GetUri(), err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.GetUri(), err)
	}
	return actions, nil
}

// parseLines reads actions, one a line.
func parseLines(content []byte) (actions []action, err error) {
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, errors.New("the file is empty; restore it")
	}
	number := 0
	for line := range bytes.Lines(content) {
		number++
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		var a action
		if err := a.parse(line); err != nil {
			return nil, fmt.Errorf("line %d: %w; the file is damaged or cut: restore it", number, err)
		}
		actions = append(actions, a)
	}
	return actions, nil
}

// parse reads an action. Those of other kinds than are needed stay empty.
func (a *action) parse(line []byte) error {
	if line[0] != '{' {
		return errors.New("it is no JSON object")
	}
	if err := json.Unmarshal(line, a); err != nil {
		return err
	}
	return a.check()
}
