package tar

import (
	"bytes"
	"strings"
)

// Split takes a member's name apart, as WebDataset does: the key is all up to the first dot of the base name, and what
// follows it names the part. Nil: the member is no part of a sample, since nothing follows such a dot, or it is hidden,
// or one of WebDataset's own files, whose names begin with __this__.
func Split(name []byte) (key, part []byte) {
	base := bytes.LastIndexByte(name, '/') + 1
	dot := bytes.IndexByte(name[base:], '.')
	if dot <= 0 || base+dot+1 == len(name) || isMeta(name) {
		return nil, nil
	}
	return name[:base+dot], name[base+dot+1:]
}

func isMeta(name []byte) bool {
	first, _, _ := bytes.Cut(name, []byte("/"))
	return len(first) >= 4 && bytes.HasPrefix(first, []byte("__")) && bytes.HasSuffix(first, []byte("__"))
}

// Lower is a part's name in small letters.
func Lower(part []byte) []byte {
	for _, b := range part {
		if 'A' <= b && b <= 'Z' || b >= 0x80 {
			return bytes.ToLower(part)
		}
	}
	return part
}

// Key is the name of the column of keys.
const Key = "__key__"

// partKind is how a part is read, unless the dataset declares it.
type partKind uint8

const (
	isBinary partKind = iota
	isText
	isInt
	isJSON
	isNpy
)

// kindOfPart tells by the end of a part's name, as WebDataset's decoders do.
func kindOfPart(part string) partKind {
	switch part[strings.LastIndexByte(part, '.')+1:] {
	case "txt", "text", "transcript", "caption":
		return isText
	case "cls", "cls2", "class", "count", "index", "inx", "id":
		return isInt
	case "json", "jsn":
		return isJSON
	case "npy":
		return isNpy
	}
	return isBinary
}

// IsNpy reports whether a part is an array of NumPy.
func IsNpy(part string) bool { return kindOfPart(part) == isNpy }

// IsText reports whether a part is text.
func IsText(part string) bool { return kindOfPart(part) == isText }

// IsInt reports whether a part is a whole number.
func IsInt(part string) bool { return kindOfPart(part) == isInt }

// IsJSON reports whether a part is a document of JSON.
func IsJSON(part string) bool { return kindOfPart(part) == isJSON }

// PartOf says which part of a sample has a column, and which field of it if the part is JSON: "meta.json.size.w" is the
// field size.w of the part meta.json.
func PartOf(column string) (part string, field []string) {
	for at := 0; at < len(column); {
		end := len(column)
		if i := strings.IndexByte(column[at:], '.'); i >= 0 {
			end = at + i
		}
		if end < len(column) && kindOfPart(column[at:end]) == isJSON {
			return column[:end], strings.Split(column[end+1:], ".")
		}
		at = end + 1
	}
	return column, nil
}
