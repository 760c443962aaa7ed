package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Begin begins a file under a hidden name, which is the upload's. Its folders are made.
func (Disk) Begin(ctx context.Context, uri string) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	dir, base := path.Split(name(uri))
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", classify(err)
	}
	upload := "." + base + "." + rand.Text()
	f, err := os.OpenFile(path.Join(dir, upload), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", classify(err)
	}
	return upload, classify(f.Close())
}

// hidden is the path of an upload, whose name may come from a file.
func hidden(uri, upload string) (string, error) {
	dir, base := path.Split(name(uri))
	if strings.Contains(upload, "/") || !strings.HasPrefix(upload, "."+base+".") {
		return "", fmt.Errorf("%q is no upload of %s", upload, uri)
	}
	return path.Join(dir, upload), nil
}

// Part writes a part to its place.
func (Disk) Part(ctx context.Context, uri, upload string, n int, body []byte) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	place, err := hidden(uri, upload)
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(place, os.O_WRONLY, 0)
	if err != nil {
		return "", classify(err)
	}
	_, err = f.WriteAt(body, int64(n-1)*object.PartSize)
	if err == nil {
		err = f.Sync()
	}
	return strconv.Itoa(n), classify(errors.Join(err, f.Close()))
}

// Finish links the file to its name, which fails if there is one.
func (Disk) Finish(ctx context.Context, uri, upload string, _ []string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	place, err := hidden(uri, upload)
	if err != nil {
		return err
	}
	if err := os.Link(place, name(uri)); err != nil && !same(place, name(uri)) {
		return classify(err)
	}
	return classify(os.Remove(place))
}

// same reports whether two paths are those of one file.
func same(a, b string) bool {
	inA, err1 := os.Stat(a)
	inB, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(inA, inB)
}

// Drop removes an upload's file.
func (Disk) Drop(_ context.Context, uri, upload string) error {
	place, err := hidden(uri, upload)
	if err != nil {
		return err
	}
	if err := os.Remove(place); !errors.Is(err, fs.ErrNotExist) {
		return classify(err)
	}
	return nil
}
