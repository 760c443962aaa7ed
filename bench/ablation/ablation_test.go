package main

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
)

// All variants, with few rows in several windows; a variant that loses rows, or makes other tensors, fails.
func TestAblation(t *testing.T) {
	out := t.TempDir()
	cmd := command()
	cmd.SetArgs([]string{
		"--out", out, "--data", t.TempDir(), "--rounds", "1", "--least", "1ns", "--rows", "2000", "--window", "200KiB", "--batch", "300", "--latency", "1ms",
	})
	cmd.SetErr(t.Output())
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(out, "ablation.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"the trainer, of batches of 1 MiB", "the worker"}
	for _, v := range variants() {
		names = append(names, v.name)
	}
	for _, name := range names {
		if !strings.Contains(string(page), "| "+name+" |") {
			t.Errorf("the page lacks %q:\n%s", name, page)
		}
	}
}

// Wherever batches are cut, the trainer's are the same: lists of 1, 2, 3 ... ids and their number in each.
func TestJoin(t *testing.T) {
	p := &pb.Program{
		Sources: []*pb.Source{
			{Name: "n", Type: &pb.Type{Kind: pb.Kind_INT32}},
			{Name: "ids", Type: &pb.Type{Kind: pb.Kind_INT64, List: true}},
		},
		Outputs: []*pb.Output{
			{Name: "n", Layout: pb.Layout_LABEL, Slots: []uint32{0}, Type: &pb.Type{Kind: pb.Kind_INT32}},
			{Name: "ids", Layout: pb.Layout_SPARSE, Slots: []uint32{1}, Type: &pb.Type{Kind: pb.Kind_INT64}},
		},
	}
	const rows, batch = 23, 7
	made := func(cut int) (sum []byte, sizes []int) {
		h := sha256.New()
		j, err := newJoiner(p, batch, func(j *joiner) error {
			j.sum(h)
			sizes = append(sizes, j.rows)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for from := 0; from < rows; from += cut {
			var n, offsets []int32
			var ids []int64
			for i := from; i < min(from+cut, rows); i++ {
				n, offsets = append(n, int32(i)), append(offsets, int32(len(ids)))
				for id := range int64(i) {
					ids = append(ids, id)
				}
			}
			offsets = append(offsets, int32(len(ids)))
			buffers := [][]byte{nil, arrow.Int32Traits.CastToBytes(n), nil, arrow.Int32Traits.CastToBytes(offsets), nil, arrow.Int64Traits.CastToBytes(ids)}
			if err := j.add(len(n), buffers); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.end(); err != nil || j.total != rows {
			t.Fatalf("%d rows, %v", j.total, err)
		}
		return h.Sum(nil), sizes
	}
	want, sizes := made(rows)
	if len(sizes) != 4 || sizes[0] != batch || sizes[3] != rows%batch {
		t.Errorf("batches of %v rows", sizes)
	}
	for cut := 1; cut < rows; cut++ {
		if got, _ := made(cut); !bytes.Equal(got, want) {
			t.Errorf("batches of %d rows are joined to others", cut)
		}
	}
}

// Nine requests of 10 ms, eight at a time, take 20 ms; nine row groups of one request each take 90.
func TestService(t *testing.T) {
	c := &counting{service: service{latency: 8 * time.Millisecond, bandwidth: 1_000_000}}
	request := func() { c.count(2000, c.service.of(2000)) }
	for range parallel + 1 {
		request()
	}
	c.fetched()
	for range parallel + 1 {
		request()
		c.fetched()
	}
	u := c.usage()
	if got := time.Duration(u.Service * float64(time.Second)).Round(time.Millisecond); got != 180*time.Millisecond {
		t.Errorf("requests take %v one after the other", got)
	}
	if got := time.Duration(u.Wait * float64(time.Second)).Round(time.Millisecond); got != 110*time.Millisecond {
		t.Errorf("requests take %v", got)
	}
	if u.Requests != 18 || u.Bytes != 36_000 {
		t.Errorf("%d requests of %d bytes", u.Requests, u.Bytes)
	}
}
