// Package file lists and reads files of the local file system (file:// URIs), for package storage. It keeps
// nothing open between calls and may be used by many goroutines at once.
package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Scheme begins every URI of this backend; an absolute path follows.
const Scheme = "file://"

// Disk is the local file system.
type Disk struct{}

// Stat describes one regular file. It fails with fs.ErrNotExist if there is none of that name.
func (Disk) Stat(ctx context.Context, uri string) (*pb.File, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	info, err := os.Stat(name(uri))
	if err != nil {
		return nil, classify(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: %w", uri, fs.ErrNotExist)
	}
	return describe(uri, info), nil
}

// List hands each regular file that q asks for to yield. Symbolic links are followed.
func (Disk) List(ctx context.Context, q object.Query, yield func(*pb.File) error) error {
	w := walker{ctx: ctx, q: q, yield: yield}
	dir := q.Prefix[:strings.LastIndexByte(q.Prefix, '/')+1]
	return classify(w.walk(dir, nil))
}

type walker struct {
	ctx   context.Context
	q     object.Query
	yield func(*pb.File) error
}

// walk lists dir, a URI that ends in "/", unless it is gone. Above are the directories that hold it.
func (w *walker) walk(dir string, above []fs.FileInfo) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	self, err := os.Stat(name(dir))
	if err != nil {
		return unlessGone(err)
	}
	for _, a := range above {
		if os.SameFile(a, self) {
			return nil // a link that leads back up
		}
	}
	open, err := os.OpenFile(name(dir), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return unlessGone(err)
	}
	dirs, err := w.files(dir, open)
	_ = open.Close() // nothing was written
	if err != nil {
		return err
	}
	above = append(above, self)
	slices.Sort(dirs)
	for _, d := range dirs {
		if err := w.walk(d, above); err != nil {
			return err
		}
	}
	return nil
}

// atOnce is how many names of a directory are read at once: there may be any number.
const atOnce = 4096

// files hands on the files of dir, and returns the directories in it that are wanted.
func (w *walker) files(dir string, open *os.File) (dirs []string, err error) {
	for {
		if err := context.Cause(w.ctx); err != nil {
			return nil, err
		}
		entries, err := open.ReadDir(atOnce)
		if errors.Is(err, io.EOF) {
			return dirs, nil
		}
		if err != nil {
			return dirs, unlessGone(err)
		}
		w.q.Pass()
		for _, e := range entries {
			into, err := w.entry(dir+e.Name(), e)
			if err != nil {
				return nil, err
			}
			if into {
				dirs = append(dirs, dir+e.Name()+"/")
			}
		}
	}
}

// entry hands on a file, or reports that a directory is wanted.
func (w *walker) entry(uri string, e fs.DirEntry) (wanted bool, err error) {
	if !strings.HasPrefix(uri, w.q.Prefix) {
		return false, nil
	}
	info, err := e.Info()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		info, err = os.Stat(name(uri))
		if errors.Is(err, fs.ErrNotExist) && w.q.Dangling != nil {
			w.q.Dangling(uri)
		}
	}
	switch {
	case err != nil: // gone meanwhile, or a link to nothing, maybe
		return false, unlessGone(err)
	case info.Mode().IsRegular():
		return false, w.yield(describe(uri, info))
	}
	return info.IsDir() && !w.q.Flat && (w.q.Enter == nil || w.q.Enter(uri+"/")), nil
}

// unlessGone passes errors on, but for those of a name that is not there any more, or is a file's where a directory
// was.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	return err
}

// ReadAt fills buf from offset. The file is compared with its ETag after it was read, so that a change before or
// during the read is noticed.
func (Disk) ReadAt(ctx context.Context, f *pb.File, buf []byte, offset int64) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	// a pipe that took the file's place has nobody wait for its writer
	file, err := os.OpenFile(name(f.Uri), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return classify(err)
	}
	defer file.Close()
	_, readErr := file.ReadAt(buf, offset)
	info, err := file.Stat()
	if err != nil {
		return classify(err)
	}
	if ETag(info) != f.Etag {
		return object.ErrChanged
	}
	if errors.Is(readErr, io.EOF) {
		return fmt.Errorf("it has %d bytes: %w", info.Size(), io.ErrUnexpectedEOF)
	}
	return classify(readErr)
}

// Put writes a file beside its place, and moves it there. Its folders are made.
func (Disk) Put(ctx context.Context, uri string, body io.ReaderAt, size int64) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	dir, base := path.Split(name(uri))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return classify(err)
	}
	hidden := path.Join(dir, "."+base+"."+rand.Text()) // should it be left
	out, err := os.OpenFile(hidden, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return classify(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(classify(err), os.Remove(hidden))
		}
	}()
	_, err = io.CopyN(out, io.NewSectionReader(body, 0, size), size)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(hidden, name(uri))
}

// Remove removes a file, unless it is gone.
func (Disk) Remove(ctx context.Context, uri string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return classify(unlessGone(os.Remove(name(uri))))
}

func name(uri string) string { return path.Clean(strings.TrimPrefix(uri, Scheme)) }

func describe(uri string, info fs.FileInfo) *pb.File {
	return &pb.File{Uri: uri, Size: info.Size(), Etag: ETag(info)}
}

// ETag changes when the file is replaced, or written: unless that leaves its length and its time of modification as
// they were.
func ETag(info fs.FileInfo) string {
	var inode uint64
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = s.Ino
	}
	return fmt.Sprintf("%x-%x-%x", info.Size(), info.ModTime().UnixNano(), inode)
}

// Alike reports whether two ETags are of files of one size and one time of modification: of a file, or of it and a copy
// that keeps the time.
func Alike(a, b string) bool {
	i, j := strings.LastIndexByte(a, '-'), strings.LastIndexByte(b, '-')
	return i >= 0 && j >= 0 && a[:i] == b[:j]
}

// classify marks what network file systems report for a while.
func classify(err error) error {
	for _, code := range []syscall.Errno{syscall.ESTALE, syscall.ETIMEDOUT, syscall.EINTR, syscall.EAGAIN} {
		if errors.Is(err, code) {
			return object.Transient(err)
		}
	}
	return err
}
