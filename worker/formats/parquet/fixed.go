package parquet

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// word holds the bits of a value as it is in a vector.
type word interface{ uint32 | uint64 }

// fixed decodes numbers into words.
type fixed[T word] struct {
	mem     *decode.Allowance
	kind    pb.Kind
	convert func(dst []T, src []byte) // from as many values in PLAIN layout
	width   int                       // of one of these
	same    bool                      // an integer becomes the same integer
	stream  stream
	indexed bool // the page holds indices
	index   runs
	dict    []T
	out     []T

	bits  bool // values in PLAIN layout are those words
	stays bool // what is read of the page may be shown where it lies
	ahead ahead[T]
	shown []T // the window's values, if they all lie in the page or in ahead; nil: they are in out

	fill   T                  // stands for nulls
	change func(dst, src []T) // nil: values stay as they are in the file
	short  []uint32           // dict, where its values have no more bits; else nil
	// shortFrom is how many bytes a dictionary has, at least, that becomes short.
	shortFrom int
}

// newFixed returns the decoder of a shape of fixed width.
func newFixed(s shape, mem *decode.Allowance) (values, error) {
	width := plainWidth(s)
	in := stream{width: width, integers: s.physical == footer.Int32 || s.physical == footer.Int64}
	if s.physical == footer.FixedLenByteArray {
		in.bytes = &binaries{mem: mem, width: width}
	}
	same := !s.logical.Decimal && !s.isSmall() && (s.physical == footer.Int32 && s.kind == pb.Kind_INT32 ||
		s.physical == footer.Int64 && s.kind == pb.Kind_INT64)
	switch s.kind {
	case pb.Kind_INT32, pb.Kind_FLOAT32, pb.Kind_FLOAT16:
		if convert := conversion32(s); convert != nil && width > 0 {
			return &fixed[uint32]{
				mem: mem, kind: s.kind, convert: convert, width: width, same: same, bits: isBits(s),
				stream: in, shortFrom: shortDictionary,
			}, nil
		}
	case pb.Kind_INT64, pb.Kind_FLOAT64:
		if convert := conversion64(s); convert != nil && width > 0 {
			return &fixed[uint64]{
				mem: mem, kind: s.kind, convert: convert, width: width, same: same, bits: isBits(s),
				stream: in, shortFrom: shortDictionary,
			}, nil
		}
	}
	return nil, fmt.Errorf("physical type %d cannot be read as %s", s.physical, s.kind)
}

// isBits reports whether values in PLAIN layout are the bits of those of its kind.
func isBits(s shape) bool {
	if s.logical.Decimal || s.isSmall() {
		return false
	}
	switch s.physical {
	case footer.Int32:
		return s.kind == pb.Kind_INT32
	case footer.Float:
		return s.kind == pb.Kind_FLOAT32
	case footer.Int64:
		return s.kind == pb.Kind_INT64
	case footer.Double:
		return s.kind == pb.Kind_FLOAT64
	}
	return false
}

// plainWidth is the width of a value in PLAIN layout.
func plainWidth(s shape) int {
	switch s.physical {
	case footer.Int32, footer.Float:
		return 4
	case footer.Int64, footer.Double:
		return 8
	case footer.Int96:
		return 12
	case footer.FixedLenByteArray:
		return s.typeLength
	}
	return 0
}

func (f *fixed[T]) dictionary(data []byte, e encoding, n int) error {
	if !e.dictionary() {
		return fmt.Errorf("encoded as %s", e)
	}
	if n > len(data)/f.width {
		return fmt.Errorf("%d values in %d bytes: %w", n, len(data), errShort)
	}
	dict, err := decode.Grow(f.mem, f.dict[:0], n)
	if err != nil {
		return err
	}
	f.dict = dict[:n]
	f.convert(f.dict, data[:n*f.width])
	if f.change != nil {
		f.change(f.dict, f.dict)
	}
	if f.short = nil; len(bytesOf(f.dict)) >= f.shortFrom {
		f.short = shorten(f.dict)
	}
	return nil
}

// shortDictionary is how many bytes a dictionary has that does not stay in the nearest cache.
const shortDictionary = 16 << 10

// shorten writes numbers of 64 bits to the front of their memory as numbers of 32, so that more of them stay in the
// caches, unless some have more bits: then it returns nil, and they are as they were.
func shorten[T word](dict []T) []uint32 {
	all := T(0)
	for _, v := range dict {
		all |= v
	}
	if unsafe.Sizeof(all) == 4 || uint64(all)>>32 != 0 {
		return nil
	}
	short := unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(dict))), len(dict))
	for i := range dict {
		short[i] = uint32(dict[i])
	}
	return short
}

// dictBytes is how much memory look-ups take place in.
func (f *fixed[T]) dictBytes() int {
	if f.short != nil {
		return 4 * len(f.short)
	}
	return len(bytesOf(f.dict))
}

// gather decodes the page's next indices, and looks them up.
func (f *fixed[T]) gather(dst []T) error {
	if f.short != nil {
		return gather(&f.index, f.short, dst)
	}
	return gather(&f.index, f.dict, dst)
}

func (f *fixed[T]) page(data []byte, e encoding, n int) error {
	f.indexed = e.indexed()
	f.ahead.begin(f.indexed && f.dictBytes() >= aheadDictionary)
	if f.indexed {
		return f.index.beginIndices(data)
	}
	return f.stream.begin(data, e, n)
}

func (f *fixed[T]) reserve(n, likely int) (err error) {
	f.out, err = decode.GrowTo(f.mem, f.out, n, likely)
	return err
}

func (f *fixed[T]) lend(stays bool) { f.stays = stays }

func (f *fixed[T]) keep() {
	copy(f.out, f.shown)
	f.shown = nil
}

func (f *fixed[T]) forget() { f.shown = nil }

// show reads the page's next n values to position at by showing them where they lie, if that can be. The vector's words
// are then aligned as bytes are.
func (f *fixed[T]) show(at, n int) (bool, error) {
	s := &f.stream
	if at == 0 {
		f.shown = nil
	}
	if f.indexed {
		return f.showAhead(at, n), nil
	}
	if !f.stays || !f.bits || f.change != nil || s.encoding != encodingPlain || at > 0 && f.shown == nil {
		return false, nil
	}
	rest := s.data
	if len(rest) < s.width { // a pointer to a value would point beyond the page
		return false, nil
	}
	if _, err := s.next(n); err != nil {
		return false, err
	}
	if at == 0 {
		f.shown = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(rest))), len(rest)/s.width)
	}
	f.shown = f.shown[:at+n] // the page holds them one behind the other
	return true, nil
}

func (f *fixed[T]) read(at, n int) error {
	if ok, err := f.show(at, n); ok || err != nil {
		return err
	}
	f.keep()
	dst := f.out[at : at+n]
	if f.indexed {
		return f.lookUpNext(dst)
	}
	if err := f.readPlain(dst); err != nil {
		return err
	}
	if f.change != nil {
		f.change(dst, dst)
	}
	return nil
}

// readPlain reads the page's next values, which are no indices.
func (f *fixed[T]) readPlain(dst []T) error {
	if f.same && f.stream.encoding == encodingDeltaPacked {
		return nextDeltas(&f.stream.delta, dst)
	}
	if f.bits && f.stream.encoding == encodingStreamSplit {
		return f.stream.join(bytesOf(dst), len(dst))
	}
	for len(dst) > 0 {
		m := min(len(dst), blockSize)
		src, err := f.stream.next(m)
		if err != nil {
			return err
		}
		f.convert(dst[:m], src)
		dst = dst[m:]
	}
	return nil
}

func (f *fixed[T]) spread(valid []uint64, from, n, present int) {
	src := f.out
	if f.shown != nil {
		src = f.shown
		copy(f.out, f.shown[:from])
		f.shown = nil
	}
	expand(f.out, src[from:from+present], valid, from, from+n, f.fill)
}

func (f *fixed[T]) into(v *vector.Vector, n int) { f.put(v, f.window()[:n]) }

// window is where the window's values are.
func (f *fixed[T]) window() []T {
	if f.shown != nil {
		return slices.Clip(f.shown) // what lies behind them is counted where it belongs
	}
	return f.out
}

func (f *fixed[T]) put(v *vector.Vector, out []T) {
	switch f.kind {
	case pb.Kind_INT32:
		v.I32 = recast[int32](out)
	case pb.Kind_INT64:
		v.I64 = recast[int64](out)
	case pb.Kind_FLOAT32:
		v.F32 = recast[float32](out)
	case pb.Kind_UINT32:
		v.Small = bytesOf(out)
	default:
		v.F64 = recast[float64](out)
	}
}

// keepWide has the dictionary keep its form, for those who read its entries.
func (f *fixed[T]) keepWide() { f.shortFrom = math.MaxInt }

// take has the values go through a step, if they are of its kind.
func (f *fixed[T]) take(e vector.Early) bool {
	if e.Fill != nil {
		fill, ok := wordOf(e.Fill, f.kind)
		if !ok {
			return false
		}
		f.fill = T(fill)
	}
	if e.Change == nil {
		return true
	}
	f64, ok := any(f).(*fixed[uint64])
	if !ok || f.kind != pb.Kind_INT64 {
		return false
	}
	f64.change = func(dst, src []uint64) { e.Change(recast[int64](dst), recast[int64](src)) }
	return true
}

// wordOf is the one value of a vector, if it is of a kind.
func wordOf(v *vector.Vector, kind pb.Kind) (uint64, bool) {
	if v.Type.Kind != kind {
		return 0, false
	}
	switch kind {
	case pb.Kind_INT32:
		return uint64(uint32(v.I32[0])), true
	case pb.Kind_INT64:
		return uint64(v.I64[0]), true
	case pb.Kind_FLOAT32:
		return uint64(math.Float32bits(v.F32[0])), true
	case pb.Kind_FLOAT64:
		return math.Float64bits(v.F64[0]), true
	}
	return 0, false
}

func (f *fixed[T]) entries(v *vector.Vector) {
	v.Rows = len(f.dict)
	f.put(v, f.dict)
}

func (f *fixed[T]) lookUp(at int, codes []uint32, _ []uint64) error {
	if at == 0 {
		f.shown = nil
	}
	f.keep()
	if len(f.dict) > 0 { // else all are null
		lookUpCodes(f.dict, codes, f.out[at:at+len(codes)])
	}
	return nil
}

// recast shows words as values. To must be as wide as T and hold no pointers.
func recast[To int32 | int64 | float32 | float64, T word](s []T) []To {
	return unsafe.Slice((*To)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// bytesOf shows words as bytes.
func bytesOf[T word](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}
