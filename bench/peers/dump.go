package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/penstock-ml/penstock/client"
)

// dump writes what was read, for peers/outputs.py: a file for each array, named TENSOR.PART.DTYPE and little-endian,
// and a list of the sizes of all batches. Of ragged tensors the parts are values and lengths.
type dump struct {
	dir   string
	files map[string]*bufio.Writer
	open  []*os.File
	sizes []int
}

func createDump(dir string) (*dump, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("dump: %w", err)
	}
	return &dump{dir: dir, files: map[string]*bufio.Writer{}}, nil
}

func (d *dump) write(b *client.Batch) error {
	d.sizes = append(d.sizes, b.Rows)
	var errs []error
	add := func(name string, data any) { errs = append(errs, d.add(name, data)) }
	if b.DenseNames != nil {
		add("dense.values.float32", b.Dense)
	}
	for _, l := range b.Labels {
		switch {
		case l.I64 != nil:
			add(l.Name+".values.int64", l.I64)
		case l.I32 != nil:
			add(l.Name+".values.int32", l.I32)
		}
	}
	for _, s := range b.Sparse {
		lengths := make([]int32, b.Rows)
		for i := range lengths {
			lengths[i] = s.Offsets[i+1] - s.Offsets[i]
		}
		add(s.Name+".values.int64", s.Values)
		add(s.Name+".lengths.int32", lengths)
	}
	for _, i := range b.Images {
		add(i.Name+".values.uint8", i.Data)
	}
	return errors.Join(errs...)
}

func (d *dump) add(name string, data any) error {
	w, ok := d.files[name]
	if !ok {
		f, err := os.Create(filepath.Join(d.dir, name))
		if err != nil {
			return fmt.Errorf("dump: %w", err)
		}
		d.open = append(d.open, f)
		w = bufio.NewWriterSize(f, 1<<20)
		d.files[name] = w
	}
	if err := binary.Write(w, binary.LittleEndian, data); err != nil {
		return fmt.Errorf("dump %s: %w", name, err)
	}
	return nil
}

func (d *dump) close() error {
	var errs []error
	for _, w := range d.files {
		errs = append(errs, w.Flush())
	}
	for _, f := range d.open {
		errs = append(errs, f.Close())
	}
	sizes, err := json.Marshal(d.sizes)
	errs = append(errs, err, os.WriteFile(filepath.Join(d.dir, "sizes.json"), sizes, 0o644))
	return errors.Join(errs...)
}
