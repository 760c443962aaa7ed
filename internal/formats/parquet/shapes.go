package parquet

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/arrowipc"
	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// arrowSchema is the key of the schema, as base64, that a table had before Arrow's writers wrote it. It is looked at
// for nothing but which lists have one shape.
const arrowSchema = "ARROW:schema"

// readMetadata reads the list of KeyValue.
func (p *parser) readMetadata(r *thrift.Reader) {
	for range r.ListOf(thrift.Struct) {
		var key, value []byte
		for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
			switch f {
			case 1<<4 | thrift.Binary:
				key = r.Bytes()
			case 2<<4 | thrift.Binary:
				value = r.Bytes()
			default:
				r.Skip(f)
			}
		}
		if string(key) == arrowSchema {
			p.arrow = value
		}
	}
}

// markShapes gives list columns the shapes that Arrow's schema says they have. Whatever else it says is ignored, and so
// is a shape of other levels than the column has, and all of it if it cannot be read.
func (p *parser) markShapes() error {
	lists := map[string]int{}
	for i := range p.columns {
		if c := &p.columns[i]; c.Type.List && c.Key == pb.Kind_KIND_UNSPECIFIED && c.Unsupported == "" {
			lists[c.Name] = i
		}
	}
	size := base64.StdEncoding.DecodedLen(len(p.arrow))
	if len(lists) == 0 || size > arrowipc.MaxHeader {
		return nil
	}
	if err := p.take(int64(size)); err != nil {
		return err
	}
	message := make([]byte, size)
	n, err := base64.StdEncoding.Decode(message, p.arrow)
	if err != nil {
		return nil //nolint:nilerr // it is ignored
	}
	arrowipc.EachShape(message[:n], func(path []string, shape []int32) {
		i, ok := lists[strings.Join(path, ".")]
		if !ok {
			return
		}
		c := &p.columns[i]
		fits := c.Type.Nested == 0 || len(shape) == int(c.Type.Nested)+1
		if fits && slices.Equal(c.Path, path) {
			c.Shape = shape
		}
	})
	return nil
}
