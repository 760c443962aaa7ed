package feed

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

const (
	// maxRequest bounds a request.
	maxRequest = 64 << 20
	// prefix are the bytes that say how long a message is.
	prefix = 4
)

// framed is a message after its length. Each part of it is a line.
func framed(parts ...any) ([]byte, error) {
	var out bytes.Buffer
	out.Write(make([]byte, prefix))
	to := json.NewEncoder(&out)
	for _, part := range parts {
		if err := to.Encode(part); err != nil {
			return nil, fmt.Errorf("feed: %T: %w", part, err)
		}
	}
	data := out.Bytes()
	binary.LittleEndian.PutUint32(data, uint32(len(data)-prefix))
	return data, nil
}

// receive is the next request.
func receive(from io.Reader) (*request, error) {
	var size [prefix]byte
	if _, err := io.ReadFull(from, size[:]); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(size[:]))
	if n > maxRequest {
		return nil, fmt.Errorf("feed: a request of %d bytes; at most %d are taken", n, maxRequest)
	}
	data, err := io.ReadAll(io.LimitReader(from, n)) // memory is taken as they come
	if err != nil {
		return nil, err
	}
	if int64(len(data)) < n {
		return nil, io.ErrUnexpectedEOF
	}
	r := &request{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("feed: a request: %w", err)
	}
	return r, nil
}
