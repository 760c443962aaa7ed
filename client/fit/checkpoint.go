package fit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// A checkpoint is a manifest and the runs that it names. The manifest comes last, under another name first, so that at
// any time the one of that name is whole, and so are its runs. Its first line is the hash of the rest.

const (
	manifestName    = "checkpoint.json"
	temporaryEnding = ".new"
	manifestVersion = 1
	maxManifest     = 1 << 30
)

type manifest struct {
	Version  int           `json:"version"`
	Identity string        `json:"identity"`
	MaxExact uint64        `json:"max_exact"`
	Serial   uint64        `json:"serial"` // of the last run
	State    []byte        `json:"state"`
	Columns  []columnState `json:"columns"`
}

type columnState struct {
	Column
	Tally   tally          `json:"tally"`
	Ints    bucket         `json:"ints"`
	Floats  map[int]bucket `json:"floats,omitempty"`
	Runs    []run          `json:"runs,omitempty"`
	Rounded bool           `json:"rounded,omitempty"`
	Known   uint64         `json:"known,omitempty"`
}

// Checkpoint saves all that was added, with a state of the caller's: where its session goes on. Once it returns, a fit
// that opens the folder goes on from here.
func (f *Fit) Checkpoint(state []byte) error {
	if err := f.err(); err != nil {
		return err
	}
	if f.folder.temporary {
		return errors.New("a checkpoint needs a folder: name one")
	}
	m := manifest{
		Version: manifestVersion, Identity: f.identity, MaxExact: f.maxExact, State: state,
		Columns: make([]columnState, len(f.columns)),
	}
	if err := f.each(runtime.GOMAXPROCS(0), func(c *column) (err error) {
		m.Columns[c.index], err = c.save()
		return err
	}); err != nil {
		return err
	}
	m.Serial = f.folder.serial.Load()
	return f.folder.publish(&m)
}

// save moves the set to runs, and says what there is.
func (c *column) save() (columnState, error) {
	s := columnState{Column: c.Column, Tally: c.tally}
	if c.exact != nil {
		s.Ints, s.Floats = c.exact.ints, map[int]bucket{}
		for i, b := range c.exact.floats {
			if b != (bucket{}) {
				s.Floats[i] = b
			}
		}
	}
	if c.set == nil {
		return s, nil
	}
	if err := c.set.spill(); err != nil {
		return s, err
	}
	s.Runs, s.Rounded, s.Known = c.set.runs, c.set.rounded, c.set.known
	return s, nil
}

// load is save's opposite.
func (c *column) load(s columnState) error {
	c.tally = s.Tally
	if c.exact != nil {
		c.exact.ints = s.Ints
		for i, b := range s.Floats {
			if i < 0 || i >= len(c.exact.floats) {
				return fmt.Errorf("column %s: a sum of exponent %d", c.Name, i)
			}
			c.exact.floats[i] = b
		}
	}
	if c.set == nil {
		return nil
	}
	for _, r := range s.Runs {
		if r.Bytes < 0 || r.Level < 0 || r.Level > 64 || !isRun(r.File) {
			return fmt.Errorf("column %s: run %q of %d bytes", c.Name, r.File, r.Bytes)
		}
	}
	c.set.runs, c.set.rounded, c.set.known = s.Runs, s.Rounded, s.Known
	return nil
}

func isRun(name string) bool {
	return strings.HasPrefix(name, "column-") && strings.HasSuffix(name, runEnding) && filepath.Base(name) == name
}

// publish makes a manifest the folder's, once its runs are on the disk, and removes what the one before had.
func (f *folder) publish(m *manifest) error {
	kept := map[string]bool{}
	for _, c := range m.Columns {
		for _, r := range c.Runs {
			kept[r.File] = true
			if f.kept[r.File] {
				continue
			}
			if err := syncFile(filepath.Join(f.dir, r.File)); err != nil {
				return fmt.Errorf("checkpoint: %w", err)
			}
		}
	}
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	path := filepath.Join(f.dir, manifestName)
	text := append([]byte(sum(body)+"\n"), body...)
	err = os.WriteFile(path+temporaryEnding, text, 0o600)
	if err == nil {
		err = syncFile(path + temporaryEnding)
	}
	if err == nil {
		err = os.Rename(path+temporaryEnding, path)
	}
	if err == nil {
		err = syncFile(f.dir)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return f.replaced(kept)
}

func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// readManifest reads the folder's; nil: it has none.
func (f *folder) readManifest() (*manifest, error) {
	path := filepath.Join(f.dir, manifestName)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var text []byte
	if err == nil && info.Size() <= maxManifest {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the fit's checkpoint: %w", err)
	}
	m, err := parseManifest(text)
	if err != nil {
		return nil, fmt.Errorf("the fit's checkpoint %s is damaged: %w; remove its folder, and fit from the start",
			path, err)
	}
	return m, nil
}

func sum(body []byte) string {
	s := sha256.Sum256(body)
	return hex.EncodeToString(s[:])
}

func parseManifest(text []byte) (*manifest, error) {
	line, body, _ := bytes.Cut(text, []byte("\n"))
	if sum(body) != string(line) {
		return nil, errors.New("its bytes differ from those written")
	}
	m := &manifest{}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, err
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("it has version %d, and this release reads %d", m.Version, manifestVersion)
	}
	return m, nil
}

// restore goes on from the folder's checkpoint, if it has one, and removes what lies beside it.
func (f *Fit) restore() error {
	m, err := f.folder.readManifest()
	if err != nil {
		return err
	}
	if m != nil {
		if err := f.load(m); err != nil {
			return err
		}
	}
	return f.folder.sweep()
}

func (f *Fit) load(m *manifest) error {
	if why := f.differs(m); why != "" {
		return fmt.Errorf("folder %s has the checkpoint of another fit: %s; name another folder, or remove it to fit "+
			"from the start", f.folder.dir, why)
	}
	for i, c := range f.columns {
		if err := c.load(m.Columns[i]); err != nil {
			return fmt.Errorf("the fit's checkpoint in %s is damaged: %w; remove the folder, and fit from the start",
				f.folder.dir, err)
		}
		for _, r := range m.Columns[i].Runs {
			f.folder.kept[r.File] = true
		}
	}
	f.folder.serial.Store(m.Serial)
	f.state, f.restored = m.State, true
	return nil
}

// differs says in what a checkpoint is not this fit's.
func (f *Fit) differs(m *manifest) string {
	switch {
	case m.Identity != f.identity:
		return fmt.Sprintf("it read %q, and this one reads %q", m.Identity, f.identity)
	case m.MaxExact != f.maxExact:
		return fmt.Sprintf("it keeps %d distinct values, and this one %d", m.MaxExact, f.maxExact)
	case len(m.Columns) != len(f.columns):
		return fmt.Sprintf("it has %d columns, and this one %d", len(m.Columns), len(f.columns))
	}
	for i, c := range f.columns {
		theirs, err1 := json.Marshal(m.Columns[i].Column)
		ours, err2 := json.Marshal(c.Column)
		if err1 != nil || err2 != nil || !bytes.Equal(theirs, ours) {
			return fmt.Sprintf("it has column %s, and this one %s", theirs, ours)
		}
	}
	return ""
}
