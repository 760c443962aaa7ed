package client

import "unsafe"

// Batch is a run of rows in tensor layout. Its slices are good until Release. All rows are of one epoch.
type Batch struct {
	// Rows is the spec's batch size, or less in the last batches of an epoch, unless the spec pads them.
	Rows int
	// Valid is how many of them are the dataset's. The rest, at the end, is padding: zeros, empty lists and byte
	// strings, padded rows without values, and provenance -1. It may be all of the batch.
	Valid int
	// Epoch counts from 0.
	Epoch uint32
	// Dense is row-major: row i of column j is Dense[i*len(DenseNames)+j]. Null is NaN.
	Dense      []float32
	DenseNames []string
	Sparse     []Sparse
	Labels     []Label
	Bytes      []Bytes
	Images     []Image
	Tensors    []Tensor
	Padded     []Padded
	// Files and RowIDs name each row's origin, if the spec asks for provenance: the index of its file in the
	// dataset's listing, and its row there.
	Files  []int32
	RowIDs []int64
	// Parts numbers the rows that a Python function made of one row of a file, if the spec asks for provenance and has
	// such a function.
	Parts []int32

	// Checkpoint, if set, is a named checkpoint that has its place right after this batch: save the model under its
	// name, once it is trained on the batch, and before the next one. If the same name comes again, with a later step,
	// that one counts.
	Checkpoint *Checkpoint

	buffers *buffers
	spares  *spares // whose the buffers are
	after   snapshot
}

// Sparse is a jagged feature: row i has the values Offsets[i] to Offsets[i+1]. Either Values or Floats is in use.
type Sparse struct {
	Name    string
	Values  []int64
	Floats  []float32
	Offsets []int32 // Rows+1, the first is 0; features whose rows have equally many values may share them
	// Weights has a score for each value, or is nil.
	Weights []float32
}

// Label has one value a row, in the slice of its own dtype; the others are nil.
type Label struct {
	Name string
	Bool []bool
	I32  []int32
	I64  []int64
	F32  []float32
	F64  []float64
}

// Bytes has byte strings, one a row or lists of them: string i is Data[Offsets[i]:Offsets[i+1]].
type Bytes struct {
	Name    string
	Data    []byte
	Offsets []int32 // one more than there are strings, the first is 0
	// RowOffsets is nil where string i is row i's. Else row i has the strings RowOffsets[i] to RowOffsets[i+1]: there
	// are Rows+1, and the first is 0.
	RowOffsets []int32
}

// Image is [Rows, H, W, C] or [Rows, C, H, W], row-major, in the slice of its own dtype; the other is nil.
type Image struct {
	Name   string
	Shape  [3]int // H, W, C or C, H, W
	Data   []byte
	Floats []float32
}

// Tensor is [Rows, Shape...], row-major, of any type of numbers.
type Tensor struct {
	Name string
	// Shape is that of a row; empty: each row has one value.
	Shape []int
	// Dtype is bool, int8, int16, int32, int64, uint8, uint16, uint32, float16, bfloat16, float32 or float64.
	Dtype string
	// Data has the values' bytes, little-endian; a bool has one, 0 or 1. Values shows them as numbers.
	Data []byte
}

// Padded is [Rows, Length], row-major: lists that were cut, or filled up, to one length.
type Padded struct {
	Name   string
	Length int
	Dtype  string // as of Tensor
	Data   []byte // as of Tensor
	// Lengths is how many values each row has. Row i's are the last Lengths[i] of its Length if Left, else the first.
	Lengths []int32
	// Value is what the rest of a row is filled with: "0", "-0.5", "NaN" or "false".
	Value string
	Left  bool
}

// Values shows the bytes of a Tensor or Padded as numbers of its Dtype, without a copy: Values[float32](t.Data). A bool
// is a uint8. float16 and bfloat16 are shown as uint16, their bits: Go has no such types.
func Values[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | float32 | float64](data []byte) []T {
	first := (*T)(unsafe.Pointer(unsafe.SliceData(data)))
	return unsafe.Slice(first, len(data)/int(unsafe.Sizeof(*first)))
}

// Release gives the batch's buffers back for reuse; its slices must not be used any more. A second call does nothing.
func (b *Batch) Release() {
	buf := b.buffers
	if buf == nil {
		return
	}
	b.buffers, b.Dense, b.DenseNames, b.Sparse, b.Labels = nil, nil, nil, nil, nil
	b.Bytes, b.Images, b.Tensors, b.Padded = nil, nil, nil, nil
	b.Files, b.RowIDs, b.Parts = nil, nil, nil // the rest others may read
	if !b.spares.keep(buf) && buf.memory != nil {
		buf.memory.of.Free()
	}
}

// expose fills the batch's slices from its buffers.
func (b *Batch) expose() {
	buf := b.buffers
	for i := range buf.layout.columns {
		c, v := &buf.layout.columns[i], &buf.columns[i]
		switch c.role {
		case roleDense:
			b.Dense, b.DenseNames = v.f32, c.names
		case roleSparse:
			buf.sparse = append(buf.sparse, Sparse{
				Name: c.name, Values: v.i64, Floats: v.f32, Offsets: v.offsets, Weights: v.weights,
			})
		case roleLabel:
			buf.labels = append(buf.labels, Label{
				Name: c.name, Bool: v.bools, I32: v.i32, I64: v.i64, F32: v.f32, F64: v.f64,
			})
		case roleBytes:
			strings := Bytes{Name: c.name, Data: v.u8, Offsets: v.offsets}
			if c.lists {
				strings.Offsets, strings.RowOffsets = v.ends, v.offsets
			}
			buf.bytes = append(buf.bytes, strings)
		case roleImage:
			buf.images = append(buf.images, Image{Name: c.name, Shape: [3]int(c.shape), Data: v.u8, Floats: v.f32})
		case roleTensor:
			buf.shaped = append(buf.shaped, Tensor{Name: c.name, Shape: c.shape, Dtype: c.dtype, Data: v.raw(c)})
		case rolePadded:
			buf.padded = append(buf.padded, Padded{
				Name: c.name, Length: c.shape[0], Dtype: c.dtype, Data: v.raw(c), Lengths: v.i32, Value: c.value,
				Left: c.left,
			})
		case roleFile:
			b.Files = v.i32
		case roleRow:
			b.RowIDs = v.i64
		case rolePart:
			b.Parts = v.i32
		}
	}
	b.Sparse, b.Labels, b.Bytes, b.Images = buf.sparse, buf.labels, buf.bytes, buf.images
	b.Tensors, b.Padded = buf.shaped, buf.padded
}
