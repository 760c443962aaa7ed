package parquet

import "github.com/penstock-ml/penstock/worker/formats/decode"

import "github.com/penstock-ml/penstock/worker/vector"

// decimals decodes decimals that stand in byte arrays of any length as FLOAT64.
type decimals struct {
	mem   *decode.Allowance
	scale decode.Decimal
	bytes binaries
	out   []float64
}

func (d *decimals) dictionary(data []byte, e encoding, n int) error {
	return d.bytes.dictionary(data, e, n)
}

func (d *decimals) page(data []byte, e encoding, n int) error { return d.bytes.page(data, e, n) }

func (d *decimals) reserve(n, likely int) (err error) {
	d.out, err = decode.GrowTo(d.mem, d.out, n, likely)
	return err
}

func (d *decimals) read(at, n int) error {
	if err := d.bytes.reserve(n, n); err != nil {
		return err
	}
	if err := d.bytes.read(0, n); err != nil {
		return err
	}
	for i := range n {
		d.out[at+i] = d.scale.BigEndian(d.bytes.data[d.bytes.ends[i]:d.bytes.ends[i+1]])
	}
	return nil
}

func (d *decimals) spread(valid []uint64, from, n, present int) {
	spread(d.out, valid, from, n, present)
}

func (d *decimals) into(v *vector.Vector, n int) { v.F64 = d.out[:n] }
