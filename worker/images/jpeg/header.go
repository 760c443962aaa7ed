package jpeg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Markers, the byte behind 0xff.
const (
	markSOF0  = 0xc0 // baseline
	markSOF2  = 0xc2 // progressive
	markDHT   = 0xc4
	markJPG   = 0xc8
	markDAC   = 0xcc
	markSOF15 = 0xcf
	markRST0  = 0xd0
	markRST7  = 0xd7
	markSOI   = 0xd8
	markEOI   = 0xd9
	markSOS   = 0xda
	markDQT   = 0xdb
	markDRI   = 0xdd
	markAPP0  = 0xe0
	markAPP1  = 0xe1
	markAPP14 = 0xee
	markTEM   = 0x01
)

// Header is what stands before a picture's data.
type Header struct {
	Width, Height int
	Components    int // 1, 3 or 4
	Progressive   bool
	Orientation   int // of EXIF, 1 to 8; 1 if it has none
}

var (
	errTruncated = errors.New("it ends in the middle")
	errNoJPEG    = errors.New("it is no JPEG: it does not begin with ff d8")
)

// Open reads data's header. The decoder keeps data until the next Open.
func (d *Decoder) Open(data []byte) (Header, error) {
	if len(data) < 2 || data[0] != 0xff || data[1] != markSOI {
		return Header{}, errNoJPEG
	}
	d.data, d.pos = data, 2
	d.Header = Header{Orientation: 1}
	d.frame = frame{}
	for d.Width == 0 {
		marker, segment, err := d.next()
		switch {
		case err != nil:
			return Header{}, err
		case marker == markSOS || marker == markEOI:
			return Header{}, errors.New("it has no frame header")
		}
		if err := d.segment(marker, segment); err != nil {
			return Header{}, err
		}
	}
	return d.Header, nil
}

// next returns the next marker and its segment, which some have not. As libjpeg does, it passes over what is no marker.
func (d *Decoder) next() (marker byte, segment []byte, err error) {
	data := d.data
	for ; ; d.pos++ {
		if d.pos+1 >= len(data) {
			return 0, nil, errTruncated
		}
		if marker = data[d.pos+1]; data[d.pos] == 0xff && marker != 0xff && marker != 0 {
			break
		}
	}
	d.pos += 2
	if marker == markEOI || marker == markTEM || marker >= markRST0 && marker <= markRST7 {
		return marker, nil, nil
	}
	rest := data[d.pos:]
	if len(rest) < 2 {
		return 0, nil, errTruncated
	}
	n := int(binary.BigEndian.Uint16(rest))
	switch {
	case n < 2:
		return 0, nil, fmt.Errorf("segment %#02x has length %d", marker, n)
	case n > len(rest):
		return 0, nil, errTruncated
	}
	d.pos += n
	return marker, rest[2:n], nil
}

// segment takes what matters of a segment other than SOS.
func (d *Decoder) segment(marker byte, b []byte) error {
	switch {
	case marker == markDHT:
		return d.huffmanTables(b)
	case marker == markDQT:
		return d.quantTables(b)
	case marker == markDRI:
		if len(b) != 2 {
			return errors.New("the restart interval is malformed")
		}
		d.restart = int(binary.BigEndian.Uint16(b))
	case marker == markAPP0 && len(b) >= 14 && string(b[:5]) == "JFIF\x00":
		d.jfif = true
	case marker == markAPP1 && !d.exif && bytes.HasPrefix(b, []byte(exifHeader)):
		d.exif = true // of several the first counts
		d.Orientation = orientation(b[len(exifHeader):])
	case marker == markAPP14 && len(b) >= 12 && string(b[:5]) == "Adobe":
		d.adobe, d.transform = true, b[11]
	case marker >= markSOF0 && marker <= markSOF2:
		return d.frameHeader(b, marker == markSOF2)
	case marker > markSOF2 && marker <= markSOF15 && marker != markJPG && marker != markDAC:
		return fmt.Errorf(
			"it is a JPEG of a kind that is not supported (SOF%d: lossless, hierarchical or arithmetic coding); "+
				"want baseline or progressive",
			marker-markSOF0)
	}
	return nil
}

func (d *Decoder) quantTables(b []byte) error {
	for len(b) > 0 {
		wide, id := b[0]>>4, b[0]&15
		size := 64 << wide
		if wide > 1 || id > 3 || len(b) < 1+size {
			return errors.New("a quantisation table is malformed")
		}
		for k := range 64 {
			if wide == 0 {
				d.quant[id][k] = int32(b[1+k])
			} else {
				d.quant[id][k] = int32(binary.BigEndian.Uint16(b[1+2*k:]))
			}
		}
		d.hasQuant |= 1 << id
		b = b[1+size:]
	}
	return nil
}

func (d *Decoder) huffmanTables(b []byte) error {
	for len(b) > 0 {
		class, id := b[0]>>4, b[0]&15
		if class > 1 || id > 3 || len(b) < 17 {
			return errTable
		}
		n := 0
		for _, count := range b[1:17] {
			n += int(count)
		}
		if n > 256 || len(b) < 17+n {
			return errTable
		}
		if err := d.setTable(class, id, b[1:17+n]); err != nil {
			return err
		}
		b = b[17+n:]
	}
	return nil
}

// setTable sets a Huffman table of DC (class 0) or AC coefficients (1).
func (d *Decoder) setTable(class, id uint8, spec []byte) error {
	table := &d.dcTables[id].huffman
	if class == 1 {
		table = &d.acTables[id].huffman
	}
	if err := table.set(spec); err != nil {
		return err
	}
	d.hasTable[class] |= 1 << id
	return nil
}

func (d *Decoder) frameHeader(b []byte, progressive bool) error {
	if d.Width > 0 {
		return errors.New("it has two frame headers")
	}
	if len(b) < 6 || len(b) != 6+3*int(b[5]) {
		return errors.New("the frame header is malformed")
	}
	height, width := int(binary.BigEndian.Uint16(b[1:])), int(binary.BigEndian.Uint16(b[3:]))
	n := int(b[5])
	switch {
	case b[0] != 8:
		return fmt.Errorf("it has %d bits a sample; want 8", b[0])
	case width == 0 || height == 0:
		return fmt.Errorf("it is %d x %d pixels by its header", width, height)
	case n != 1 && n != 3 && n != 4:
		return fmt.Errorf("it has %d components; want 1, 3 or 4", n)
	}
	d.maxH, d.maxV = 1, 1
	for i := range n {
		c := &d.components[i]
		*c = component{plane: c.plane[:0], coefficients: c.coefficients[:0]}
		c.id, c.h, c.v, c.table = b[6+3*i], int(b[7+3*i]>>4), int(b[7+3*i]&15), b[8+3*i]
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.table > 3 {
			return errors.New("the frame header is malformed")
		}
		d.maxH, d.maxV = max(d.maxH, c.h), max(d.maxV, c.v)
	}
	for i := range n {
		c := &d.components[i]
		if d.maxH%c.h != 0 || d.maxV%c.v != 0 {
			return fmt.Errorf(
				"component %d has %d x %d samples where the most is %d x %d: such fractions are not supported",
				i, c.h, c.v, d.maxH, d.maxV)
		}
		c.width, c.height = ceilDiv(width*c.h, d.maxH), ceilDiv(height*c.v, d.maxV)
		c.blocksX, c.blocksY = ceilDiv(c.width, 8), ceilDiv(c.height, 8)
	}
	d.Width, d.Height, d.Components, d.Progressive = width, height, n, progressive
	return nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

const exifHeader = "Exif\x00\x00"

// orientation reads EXIF's orientation, 1 if there is none.
func orientation(b []byte) int {
	if len(b) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	switch string(b[:4]) {
	case "II*\x00":
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := uint64(order.Uint32(b[4:]))
	if at+2 > uint64(len(b)) {
		return 1
	}
	entries := b[at+2:]
	for range order.Uint16(b[at:]) {
		if len(entries) < 12 {
			return 1
		}
		const tag, short, long = 0x112, 3, 4
		if order.Uint16(entries) != tag {
			entries = entries[12:]
			continue
		}
		var value uint32
		switch order.Uint16(entries[2:]) {
		case short:
			value = uint32(order.Uint16(entries[8:]))
		case long:
			value = order.Uint32(entries[8:])
		}
		if value < 1 || value > 8 {
			return 1
		}
		return int(value)
	}
	return 1
}
