package convert

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// output is where the files go: a temporary place beside the final one until all of them are complete.
type output struct {
	final string // directory or file
	temp  string // directory
	names []string
	file  *os.File
	buf   *bufio.Writer
}

// newOutput prepares an output, which must not be there yet unless it may be overwritten.
func newOutput(o Options, in *inputs) (*output, error) {
	out := &output{final: filepath.Clean(o.Output)}
	if err := out.free(o.Overwrite); err != nil {
		return nil, err
	}
	for i := range in.files {
		if inside(in.name(i), out.final) {
			return nil, fmt.Errorf("input %s lies in the output %s", in.name(i), out.final)
		}
	}
	parent := filepath.Dir(out.final)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("make the output's directory: %w", err)
	}
	var err error
	if out.temp, err = os.MkdirTemp(parent, "."+filepath.Base(out.final)+".converting-*"); err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	if err := out.replaceable(); err != nil {
		return nil, errors.Join(err, os.Remove(out.temp))
	}
	return out, nil
}

// old is where a directory lies that is replaced.
func (out *output) old() string { return out.temp + ".old" }

// replaceable moves a directory that is to be replaced away and back, which fails if it cannot be moved in the end
// either.
func (out *output) replaceable() error {
	if isParquet(out.final) {
		return nil
	}
	err := os.Rename(out.final, out.old())
	switch {
	case err == nil:
		return os.Rename(out.old(), out.final)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf(
		"output %s cannot be replaced as a whole, as no mount point or working directory can (%w); name a directory "+
			"in it", out.final, err)
}

// inside reports whether a file is the output or lies in it.
func inside(file, dir string) bool {
	a, err1 := filepath.Abs(file)
	b, err2 := filepath.Abs(dir)
	if err1 != nil || err2 != nil {
		return false
	}
	rel, err := filepath.Rel(b, a)
	return err == nil && filepath.IsLocal(rel)
}

// free reports whether the output's name may be used. A directory is replaced only if it holds nothing but Parquet
// files, so that a mistaken name costs no other data.
func (out *output) free(overwrite bool) error {
	info, err := os.Stat(out.final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir() == isParquet(out.final):
		return fmt.Errorf("output %s is there already, but it is %v: choose another name", out.final, what(info))
	case !info.IsDir():
		if !overwrite {
			return fmt.Errorf("output %s is there already; give --overwrite, or choose another name", out.final)
		}
		return nil
	}
	entries, err := os.ReadDir(out.final)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() || !isParquet(e.Name()) {
			return fmt.Errorf("output %s holds %s, which is no Parquet file: choose another directory",
				out.final, e.Name())
		}
		if !overwrite {
			return fmt.Errorf("output %s is not empty; give --overwrite, or choose another directory", out.final)
		}
	}
	return nil
}

func what(info fs.FileInfo) string {
	if info.IsDir() {
		return "a directory"
	}
	return "a file"
}

// begin opens the next file.
func (out *output) begin() (*bufio.Writer, error) {
	name := fmt.Sprintf("part-%05d.parquet", len(out.names))
	if isParquet(out.final) {
		name = filepath.Base(out.final)
	}
	f, err := os.Create(filepath.Join(out.temp, name))
	if err != nil {
		return nil, fmt.Errorf("create an output file: %w", err)
	}
	out.names = append(out.names, name)
	out.file, out.buf = f, bufio.NewWriterSize(f, 1<<20)
	return out.buf, nil
}

// end completes the file that begin opened.
func (out *output) end() error {
	err := errors.Join(out.buf.Flush(), out.file.Sync(), out.file.Close())
	out.file = nil
	if err != nil {
		return fmt.Errorf("write %s: %w", out.names[len(out.names)-1], err)
	}
	return nil
}

// publish gives the output its name.
func (out *output) publish(overwrite bool) (Result, error) {
	var r Result
	for _, name := range out.names {
		info, err := os.Stat(filepath.Join(out.temp, name))
		if err != nil {
			return r, err
		}
		r.Bytes += info.Size()
		if isParquet(out.final) {
			r.Files = append(r.Files, out.final)
		} else {
			r.Files = append(r.Files, filepath.Join(out.final, name))
		}
	}
	if err := out.free(overwrite); err != nil { // somebody may have been faster
		return r, err
	}
	if isParquet(out.final) {
		return r, os.Rename(filepath.Join(out.temp, out.names[0]), out.final)
	}
	if err := os.Chmod(out.temp, 0o755); err != nil {
		return r, err
	}
	return r, out.replace()
}

// replace moves the new directory to the place of the old one, if there is one.
func (out *output) replace() error {
	err := os.Rename(out.final, out.old())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move the old output away: %w", err)
	}
	moved := err == nil
	if err = os.Rename(out.temp, out.final); err != nil {
		err = fmt.Errorf("name the output: %w", err)
		if moved {
			err = errors.Join(err, os.Rename(out.old(), out.final))
		}
		return err
	}
	// what is left of it, as on NFS while somebody reads it, does no harm: the new output is in place
	_ = os.RemoveAll(out.old())
	return nil
}

// abandon deletes what was not published.
func (out *output) abandon() {
	if out.file != nil {
		_ = out.file.Close()
	}
	_ = os.RemoveAll(out.temp)
}
