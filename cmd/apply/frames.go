package apply

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// prefix are the bytes that say how long a header is.
	prefix = 4
	// maxHeader bounds a header, in bytes: it may have a spec.
	maxHeader = 64 << 20
	// alignment is that of each part behind a header.
	alignment = 64
)

// request is what the Python package asks for: a header, and parts of so many bytes behind it.
type request struct {
	Open  *openRequest `json:"open"`
	Parts []int64      `json:"parts"` // of Open code and a schema as a file; else the rows as one

	parts [][]byte
}

// openRequest says what is applied.
type openRequest struct {
	Spec     json.RawMessage `json:"spec"`      // as protojson has it; or
	SpecText string          `json:"spec_text"` // as YAML or JSON
	Pinned   string          `json:"pinned"`    // a pinned spec, as YAML, that Spec is held against
	Outputs  []string        `json:"outputs"`
	Memory   int64           `json:"memory"`
}

// reply answers a request: a header, and behind it the tensors' arrays, each from a multiple of 64 bytes on.
type reply struct {
	Error string `json:"error,omitempty"`
	Kind  string `json:"kind,omitempty"` // of the error: spec or data

	Rows    int64    `json:"rows"`
	Parts   []int    `json:"parts"`             // the arrays' bytes
	Schema  []byte   `json:"schema,omitempty"`  // an Arrow stream without batches, if it is another one than before
	Without []string `json:"without,omitempty"` // labels that are left out
}

// receive reads a request whose parts may have so many bytes together.
func receive(from io.Reader, limit int64) (*request, error) {
	var size [prefix]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(size[:]))
	if n > maxHeader {
		return nil, fmt.Errorf("a request's header has %d bytes; at most %d are taken", n, maxHeader)
	}
	header, err := take(from, n)
	if err != nil {
		return nil, err
	}
	r := &request{}
	if err := json.Unmarshal(header, r); err != nil {
		return nil, fmt.Errorf("a request: %w", err)
	}
	for _, n := range r.Parts {
		if limit -= n; n < 0 || limit < 0 {
			return nil, errors.New("a request is longer than the memory that rows may take; give fewer at once")
		}
		part, err := take(from, n)
		if err != nil {
			return nil, err
		}
		r.parts = append(r.parts, part)
	}
	return r, nil
}

// take reads n bytes. Memory is taken as they come.
func take(from io.Reader, n int64) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(int(min(n, 1<<20)))
	if _, err := io.CopyN(&out, from, n); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// send sends a reply, and the arrays that it has.
func send(to *bufio.Writer, r *reply, arrays [][]byte) error {
	r.Parts = make([]int, len(arrays))
	for i, a := range arrays {
		r.Parts[i] = len(a)
	}
	header, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("a reply: %w", err)
	}
	if _, err := to.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(header)))); err != nil {
		return err
	}
	if _, err := to.Write(header); err != nil {
		return err
	}
	var padding [alignment]byte
	for _, a := range arrays {
		if _, err := to.Write(a); err != nil {
			return err
		}
		if _, err := to.Write(padding[:-len(a)&(alignment-1)]); err != nil {
			return err
		}
	}
	return to.Flush()
}
