package convert

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/storage/file"
)

// directory is an output on a disk: a directory, or one file. What is written lies in a directory beside it, which gets
// its name in the end. That one is locked: one process at a time writes an output.
type directory struct {
	progress
	final     string // directory or file
	temp      string // directory
	overwrite bool
	format    string   // that is written
	work      string   // which conversion it is
	size      int64    // of the journal of an earlier run, behind which this one goes on
	lock      *os.File // temp
	journal   *os.File
	together  int      // files that are put on the disk, and into the journal, at once
	pending   int      // last files that are not yet
	bytes     int64    // of these
	file      *os.File // being written
	name      string   // of it, in temp
	buf       *bufio.Writer
	published bool
}

// journalName is that of the journal in temp.
const journalName = "_journal.jsonl"

func newDirectory(o Options, in *inputs) (*directory, error) {
	out := &directory{
		final:     filepath.Clean(strings.TrimPrefix(o.Output, file.Scheme)),
		overwrite: o.Overwrite,
		work:      workOf(o, in),
		together:  1,
		format:    o.To,
		progress:  progress{ending: o.ending()},
	}
	if len(o.PartitionBy) > 0 {
		out.together = cmp.Or(o.together, fewFiles)
	}
	if err := out.free(); err != nil {
		return nil, err
	}
	for i := range in.files {
		if inside(in.name(i), out.final) {
			return nil, fmt.Errorf("input %s lies in the output %s", in.name(i), out.final)
		}
	}
	out.temp = filepath.Join(filepath.Dir(out.final), "."+filepath.Base(out.final)+".converting")
	if err := os.MkdirAll(out.temp, 0o755); err != nil {
		return nil, fmt.Errorf("make the output's directory: %w", err)
	}
	err := out.locked()
	if err == nil {
		err = out.restore()
	}
	if err == nil {
		err = out.resume(o.Restart)
	}
	if err == nil {
		err = out.replaceable()
	}
	if err != nil {
		return nil, out.abandon(err)
	}
	return out, nil
}

// locked locks temp until this process ends, or release.
func (out *directory) locked() (err error) {
	if out.lock, err = os.Open(out.temp); err != nil {
		return err
	}
	if err = process.Lock(out.lock); err == nil {
		return nil
	}
	out.release()
	if errors.Is(err, process.ErrLocked) || errors.Is(err, fs.ErrNotExist) { // it got its name just now
		err = fmt.Errorf("another conversion writes %s: wait for its end, or choose another output", out.final)
	}
	return err
}

func (out *directory) release() {
	_ = out.lock.Close() // nothing was written to it
	out.lock = nil
}

// resume reads the journal of an earlier run, and checks the files that it names.
func (out *directory) resume(restart bool) error {
	entries, size, err := readJournal(filepath.Join(out.temp, journalName))
	if err != nil || restart || len(entries) < 2 {
		return err
	}
	if err := out.take(entries, out.work); err != nil {
		return fmt.Errorf("%s: %w", out.temp, err)
	}
	out.size = size
	for _, f := range out.files {
		info, err := os.Stat(filepath.Join(out.temp, f.Name))
		if err != nil || info.Size() != f.Bytes {
			return fmt.Errorf("%s is not as an earlier run left it; give --restart to begin anew",
				filepath.Join(out.temp, f.Name))
		}
	}
	return nil
}

// start keeps the files of an earlier run that are finished, and nothing else.
func (out *directory) start(_ context.Context, order []int) error {
	err := out.sweep()
	if err != nil {
		return err
	}
	out.journal, err = os.OpenFile(filepath.Join(out.temp, journalName), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if out.size == 0 {
		return out.record(entry{Work: out.work, Order: order})
	}
	if err := out.journal.Truncate(out.size); err != nil {
		return err
	}
	_, err = out.journal.Seek(out.size, io.SeekStart)
	return err
}

// readJournal returns the whole entries of a journal and their size: a process may have died while it wrote the next.
func readJournal(name string) (entries []entry, size int64, err error) {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	for line := range bytes.Lines(text) {
		var e entry
		if json.Unmarshal(line, &e) != nil || !bytes.HasSuffix(line, []byte{'\n'}) {
			break
		}
		entries = append(entries, e)
		size += int64(len(line))
	}
	return entries, size, err
}

// sweep removes all files that are not finished, and folders that are empty.
func (out *directory) sweep() error {
	kept := map[string]bool{journalName: out.size > 0}
	for _, f := range out.files {
		kept[f.Name] = true
	}
	var folders []string
	err := fs.WalkDir(os.DirFS(out.temp), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || kept[name] || name == ".":
			return err
		case e.IsDir():
			folders = append(folders, name)
			return nil
		}
		return os.Remove(filepath.Join(out.temp, name))
	})
	for _, name := range slices.Backward(folders) { // the inner ones first
		_ = os.Remove(filepath.Join(out.temp, name)) // those with files stay
	}
	return err
}

func (out *directory) record(entries ...entry) error {
	var lines []byte
	var err error
	for _, e := range entries {
		var text []byte
		text, err = json.Marshal(e)
		lines = append(append(lines, text...), '\n')
	}
	if err == nil {
		_, err = out.journal.Write(lines)
	}
	if err == nil {
		err = out.journal.Sync()
	}
	if err != nil {
		return fmt.Errorf("write the journal: %w", err)
	}
	return nil
}

func (out *directory) scratch() string { return out.temp }

func (out *directory) done() *progress { return &out.progress }

// begin opens the next file of a folder. Where upper and lower case are one, two folders may be: then it is there.
func (out *directory) begin(_ context.Context, folder string) (io.Writer, error) {
	out.name = out.next(folder)
	name := filepath.Join(out.temp, filepath.FromSlash(out.name))
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err != nil {
		return nil, fmt.Errorf("create an output file: %w", err)
	}
	if out.file = f; out.buf == nil {
		out.buf = bufio.NewWriterSize(nil, 1<<20)
	}
	out.buf.Reset(f)
	return out.buf, nil
}

// end completes the file that begin opened.
func (out *directory) end(_ context.Context, f finished) error {
	f.Name = out.name
	err := errors.Join(out.buf.Flush(), out.file.Close())
	out.file = nil
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(filepath.Join(out.temp, f.Name)); err == nil {
			f.Bytes = info.Size()
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.Name, err)
	}
	out.add(f)
	out.pending++
	if out.bytes += f.Bytes; out.pending < out.together && out.bytes < fewBytes {
		return nil
	}
	return out.settle()
}

// Files of partitions, which may be small and many, are waited for together: so many, or until they have so many bytes.
const (
	fewFiles = 64
	fewBytes = 64 << 20
)

// settle waits until the disk has the last files, and says so in the journal.
func (out *directory) settle() error {
	if out.pending == 0 {
		return nil
	}
	files := out.files[len(out.files)-out.pending:]
	out.pending, out.bytes = 0, 0
	entries := make([]entry, len(files))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i := range files {
		entries[i].File = &files[i]
		group.Go(func() error {
			f, err := os.Open(filepath.Join(out.temp, files[i].Name))
			if err == nil {
				err = errors.Join(f.Sync(), f.Close())
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("write an output file: %w", err)
	}
	return out.record(entries...)
}

// abandon removes what was written, unless files are finished. Before start, what an earlier run left stays.
func (out *directory) abandon(err error) error {
	if out.file != nil {
		_ = out.file.Close()
	}
	if out.journal != nil && !out.published {
		err = errors.Join(err, out.settle())
	}
	if out.journal != nil {
		_ = out.journal.Close() // each entry was synced
	}
	if out.lock == nil {
		return err // somebody else's
	}
	defer out.release()
	switch {
	case out.published:
		return err
	case out.journal == nil:
		_ = os.Remove(out.temp) // which succeeds if nothing is in it
		return out.resumable(err)
	case len(out.files) > 0 && !isOne(out.final):
		return out.resumable(err)
	}
	return errors.Join(err, os.RemoveAll(out.temp))
}
