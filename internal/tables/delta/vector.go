package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
)

// vector says where the deletion vector of a file is.
type vector struct {
	Storage     string `json:"storageType"`
	Place       string `json:"pathOrInlineDv"`
	Offset      *int64 `json:"offset"`
	Size        int64  `json:"sizeInBytes"`
	Cardinality int64  `json:"cardinality"`
}

const (
	framing   = 8       // a length before a vector in a file, a checksum behind it
	maxInline = 1 << 20 // bytes of a vector in the log
	maxVector = 1 << 31 // bytes of one in a file
	uuidText  = 20      // characters of a UUID in base 85
)

// id tells vectors of the same file apart; that of nil is "".
func (v *vector) id() string {
	if v == nil {
		return ""
	}
	if v.Offset == nil {
		return v.Storage + v.Place
	}
	return v.Storage + v.Place + "@" + strconv.FormatInt(*v.Offset, 10)
}

var isPrefix = regexp.MustCompile(`^[A-Za-z0-9]*$`)

// excluded is what workers read a vector by.
func (v *vector) excluded(in root) (*pb.Excluded, error) {
	e := &pb.Excluded{Form: pb.Excluded_DELTA_VECTOR, Rows: v.Cardinality}
	if v.Cardinality < 0 || v.Size < 0 || v.Size > maxVector {
		return nil, fmt.Errorf("its deletion vector has %d rows in %d bytes", v.Cardinality, v.Size)
	}
	switch v.Storage {
	case "i":
		content, err := v.inline()
		e.Content = content
		return e, err
	case "u":
		prefix, id, err := v.uuid()
		if err != nil {
			return nil, err
		}
		if e.Uri = in.uri; prefix != "" {
			e.Uri += "/" + prefix
		}
		e.Uri += "/deletion_vector_" + id + ".bin"
	case "p":
		var err error
		if e.Uri, err = in.resolve(v.Place); err != nil {
			return nil, fmt.Errorf("its deletion vector: %w", err)
		}
	default:
		return nil, fmt.Errorf("the storage type %.20q of its deletion vector is not known", v.Storage)
	}
	if v.Offset != nil {
		e.Offset = *v.Offset
	}
	if e.Offset < 0 {
		return nil, fmt.Errorf("its deletion vector is at offset %d", e.Offset)
	}
	e.Length = v.Size + framing
	return e, nil
}

func (v *vector) inline() ([]byte, error) {
	if v.Size > maxInline {
		return nil, fmt.Errorf("its deletion vector has %d bytes in the log; at most %d are read", v.Size, maxInline)
	}
	content, err := base85(v.Place)
	if err != nil {
		return nil, fmt.Errorf("its deletion vector: %w", err)
	}
	if padding := int64(len(content)) - v.Size; padding < 0 || padding > 3 {
		return nil, fmt.Errorf("its deletion vector has %d bytes where %d are told", len(content), v.Size)
	}
	return content[:v.Size], nil
}

// uuid is what the name of a vector's file is made of, and the folder that it is in.
func (v *vector) uuid() (prefix, id string, err error) {
	cut := len(v.Place) - uuidText
	if cut < 0 || !isPrefix.MatchString(v.Place[:cut]) {
		return "", "", fmt.Errorf("%.60q names no file of a deletion vector", v.Place)
	}
	raw, err := base85(v.Place[cut:])
	if err != nil {
		return "", "", fmt.Errorf("its deletion vector: %w", err)
	}
	return v.Place[:cut], fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]), nil
}

// alphabet is that of Z85 (rfc.zeromq.org/spec/32).
const alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"

// base85 reads Z85: four bytes of five characters.
func base85(text string) ([]byte, error) {
	if len(text)%5 != 0 {
		return nil, errors.New("its text in base 85 is cut")
	}
	out := make([]byte, 0, len(text)/5*4)
	for ; text != ""; text = text[5:] {
		var n uint64
		for i := range 5 {
			digit := strings.IndexByte(alphabet, text[i])
			if digit < 0 {
				return nil, fmt.Errorf("%q is no digit in base 85", text[i])
			}
			n = n*85 + uint64(digit)
		}
		if n > 1<<32-1 {
			return nil, fmt.Errorf("%q is no number of 32 bits in base 85", text[:5])
		}
		out = binary.BigEndian.AppendUint32(out, uint32(n))
	}
	return out, nil
}
