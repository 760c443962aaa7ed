// Package zoneinfo holds the IANA time zone database, release 2025c, as Go 1.26 brings it along. It is a file of this
// repository, and not the machine's database nor that of the Go toolchain, so that a worker's results depend on
// neither. Another release may change what local hours are: whoever replaces zoneinfo.zip raises the version of the ops
// that use it. The package keeps no state and is safe for concurrent use.
package zoneinfo

import (
	"archive/zip"
	"bytes"
	_ "embed" // the database
	"fmt"
	"io"
	"strings"
)

//go:embed zoneinfo.zip
var database []byte

// Release is the database's.
const Release = "2025c"

// Load returns the TZif data of a zone, such as "Europe/Berlin", and whether there is one of that name.
func Load(name string) (data []byte, ok bool, err error) {
	files, err := open()
	if err != nil {
		return nil, false, err
	}
	for _, f := range files {
		if f.Name != name || f.FileInfo().IsDir() {
			continue
		}
		data, err := read(f)
		if err != nil {
			return nil, false, fmt.Errorf("read time zone %s: %w", name, err)
		}
		return data, true, nil
	}
	return nil, false, nil
}

// Names lists all zones.
func Names() ([]string, error) {
	files, err := open()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name, "/") {
			names = append(names, f.Name)
		}
	}
	return names, nil
}

func open() ([]*zip.File, error) {
	r, err := zip.NewReader(bytes.NewReader(database), int64(len(database)))
	if err != nil {
		return nil, fmt.Errorf("open the time zone database: %w", err)
	}
	return r.File, nil
}

func read(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}
