package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// old is where a directory lies that is replaced.
func (out *directory) old() string { return out.temp + ".old" }

// restore ends what a run that was killed began: a directory that it had moved away comes back, unless the new one is
// in its place.
func (out *directory) restore() error {
	switch _, err := os.Lstat(out.final); {
	case err == nil:
		return os.RemoveAll(out.old())
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	err := os.Rename(out.old(), out.final)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = out.free()
	}
	return err
}

// replaceable moves a directory that is to be replaced away and back, which fails if it cannot be moved in the end
// either.
func (out *directory) replaceable() error {
	if isOne(out.final) {
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

// free reports whether the output's name may be used. A directory is replaced only if it holds nothing but files of
// the format that is written, some perhaps in the folders of partitions, so that a mistaken name costs no other data.
func (out *directory) free() error {
	info, err := os.Stat(out.final)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir() == isOne(out.final):
		return fmt.Errorf("output %s is there already, but it is %v: choose another name", out.final, what(info))
	case !info.IsDir():
		if !out.overwrite {
			return fmt.Errorf("output %s is there already; give --overwrite, or choose another name", out.final)
		}
		return nil
	}
	return fs.WalkDir(os.DirFS(out.final), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == "." || name == journalName || name == mdsIndex && out.format == asMDS:
			// a run that died after it had published left its journal
			return nil
		case e.IsDir() && !strings.Contains(e.Name(), "="), !e.IsDir() && !out.alike(e.Name()):
			return fmt.Errorf("output %s holds %s, which is no file of %s, and no partition: choose another directory",
				out.final, name, out.ending)
		case !out.overwrite:
			return fmt.Errorf("output %s is not empty; give --overwrite, or choose another directory", out.final)
		}
		return nil
	})
}

// alike reports whether a file has the name of one of the output's format.
func (out *directory) alike(name string) bool {
	f, ok := formatOfFile(name)
	return ok && f.name == out.format
}

func what(info fs.FileInfo) string {
	if info.IsDir() {
		return "a directory"
	}
	return "a file"
}

// publish gives the output its name.
func (out *directory) publish(_ context.Context, beside *attached) (names []string, err error) {
	if err := out.settle(); err != nil {
		return nil, err
	}
	if beside != nil {
		if err := writeSynced(filepath.Join(out.temp, beside.name), beside.text); err != nil {
			return nil, err
		}
	}
	if err := out.free(); err != nil { // somebody may have been faster
		return nil, err
	}
	if isOne(out.final) { // whose temp abandon removes
		return []string{out.final}, os.Rename(filepath.Join(out.temp, out.files[0].Name), out.final)
	}
	for _, f := range out.files {
		names = append(names, filepath.Join(out.final, f.Name))
	}
	if err := out.replace(); err != nil {
		return nil, err
	}
	out.published = true
	return names, os.Remove(filepath.Join(out.final, journalName))
}

// writeSynced writes a small file, and waits until the disk has it.
func writeSynced(name string, text []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// replace moves the new directory to the place of the old one, if there is one.
func (out *directory) replace() error {
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
