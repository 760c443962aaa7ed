package transform

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/vector"
)

// grayRow is a picture of a row of pixels: that of a width has so many, from 10 times the width on.
func grayRow(t *testing.T, width int) (encoded, pixels []byte) {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, width, 1))
	for i := range m.Pix {
		m.Pix[i] = byte(10*width + i)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), m.Pix
}

// developing decodes pictures, which a filter gets, and behind it a map.
func developing(shown bool) *pb.Program {
	gray := func() *pb.Type {
		return spec.Type{Kind: pb.Kind_PICTURE, Picture: spec.Picture{Channels: 1}}.Proto()
	}
	filter := &pb.Step{
		Op: python, Version: 1, In: []uint32{2}, At: "transforms[2]",
		Python: &pb.Function{Name: "f", Kind: pb.FunctionKind_FILTER, Style: pb.Style_ROWS},
	}
	maps := calls([]uint32{2}, scalar(pb.Kind_INT64))
	maps.Python.Style = pb.Style_ROWS
	p := &pb.Program{
		Sources: []*pb.Source{{Name: "photo", Type: scalar(pb.Kind_BINARY).Proto()}},
		Steps: []*pb.Step{
			{
				Op: "decode_png", Version: 1, Params: values{"mode": "gray"}.proto(), In: []uint32{0}, Outs: 1,
				Name: "photo", At: "transforms[0]", Type: gray(),
			},
			{Op: "flip", Version: 1, In: []uint32{1}, Outs: 1, Name: "photo", At: "transforms[1]", Type: gray()},
			filter, maps,
		},
		Outputs: []*pb.Output{{Name: "n", Layout: pb.Layout_LABEL, Slots: []uint32{3}}},
	}
	if shown {
		p.Outputs = append(p.Outputs, &pb.Output{Name: "photo", Layout: pb.Layout_IMAGE, Slots: []uint32{2}})
	}
	return p
}

// Functions get pixels of the rows that are there, before a filter and behind it, also where an output shows the
// pictures. What the pictures are made of crosses the filter if somebody needs it there, and no picture does.
func TestFunctionsGetPixels(t *testing.T) {
	at := Rows{Seed: 5, Epoch: 1, File: 9, First: 100, N: 50, Chosen: []int32{3, 20, 21, 40, 41}}
	widths := []int{3, 5, 0, 7, 2} // 0: null
	photos := &vector.Vector{Type: scalar(pb.Kind_BINARY), Rows: 5, Ends: []int32{0}, Valid: []uint64{0b11011}}
	var pixels [][]byte
	mirrored := 0
	for row, width := range widths {
		var encoded, made []byte
		if width > 0 {
			encoded, made = grayRow(t, width)
		}
		if draws := drawsOf(at, "flip", 0); chance(0.5).covers(draws.At(at.Of(row))) {
			slices.Reverse(made)
			mirrored += len(made)
		}
		photos.Data, pixels = append(photos.Data, encoded...), append(pixels, made)
		photos.Ends = append(photos.Ends, int32(len(photos.Data)))
	}
	if mirrored == 0 || mirrored == 17 {
		t.Fatal("all rows draw alike")
	}
	check := func(c *Call, rows ...int) {
		v, sizes := c.In[0], c.Sizes[0]
		for i, row := range rows {
			got := v.Data[v.Ends[i]:v.Ends[i+1]]
			if !bytes.Equal(got, pixels[row]) || sizes[2*i+1] != int32(widths[row]) || v.IsNull(i) != (widths[row] == 0) ||
				sizes[2*i] != int32(min(1, widths[row])) {
				t.Errorf("row %d: %v of %v, want %v", row, got, sizes[2*i:2*i+2], pixels[row])
			}
		}
		if v.Pictures != nil || v.Rows != len(rows) || c.N != len(rows) {
			t.Errorf("%d rows of %d", v.Rows, c.N)
		}
	}
	for _, shown := range []bool{false, true} {
		called := 0
		chain, err := Compile(Builtin(), developing(shown), functions(func(_ context.Context, c *Call) error {
			if called++; len(c.Out) == 0 {
				check(c, 0, 1, 2, 3, 4)
				c.Parents = []int32{1, 2, 4}
				return nil
			}
			check(c, 1, 2, 4)
			c.Out[0].Rows, c.Out[0].I64 = c.N, make([]int64, c.N)
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		asked := int64(0)
		chain.Ask(Ask{Scratch: func(n int64) error { asked += n; return nil }})
		for range 2 {
			chain.Place(at, images.Room{Most: 1 << 20})
			slots, err := chain.Run(t.Context(), []*vector.Vector{photos})
			if err != nil {
				t.Fatal(err)
			}
			if !shown {
				continue
			}
			out := make([]byte, widths[4])
			if err := slots[2].Pictures.Make(2, images.Canvas{Bytes: out}); err != nil || !bytes.Equal(out, pixels[4]) {
				t.Errorf("shown: %v, %v, want %v", out, err, pixels[4])
			}
		}
		var crossing []uint32
		for i := range chain.steps {
			if b := chain.steps[i].barrier; b != nil {
				for _, x := range b.crosses {
					crossing = append(crossing, x.slot)
				}
			}
		}
		if called != 4 || asked < 17 || asked > 20_000 || !slices.Equal(crossing, []uint32{0}) {
			t.Errorf("%d calls; asked for %d bytes; slots %v crossed", called, asked, crossing)
		}
	}
}

// Where there is no memory for pixels, or a picture is damaged, no function is called; the error names the row.
func TestPixelsThatCannotBe(t *testing.T) {
	encoded, _ := grayRow(t, 9)
	photo := func(data []byte) *vector.Vector {
		return &vector.Vector{Type: scalar(pb.Kind_BINARY), Rows: 1, Ends: []int32{0, int32(len(data))}, Data: data}
	}
	for want, c := range map[string]struct {
		data []byte
		room images.Room
		ask  error
	}{
		"row 107 has no picture: decode_png: ":       {data: encoded[:20], room: images.Room{Most: 1 << 20}},
		"row 107: decode_png: too large":             {data: encoded, room: images.Room{Most: 1}},
		"transforms[2] (python f): nobody has bytes": {data: encoded, ask: fmt.Errorf("nobody has bytes")},
	} {
		chain, err := Compile(Builtin(), developing(false), functions(func(context.Context, *Call) error {
			t.Error("the function is called")
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		chain.Ask(Ask{Scratch: func(int64) error { return c.ask }})
		chain.Place(Rows{First: 100, N: 9, Chosen: []int32{7}}, c.room)
		_, err = chain.Run(t.Context(), []*vector.Vector{photo(c.data)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
