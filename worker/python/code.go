package python

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/lru"
)

const (
	maxCode  = 16 << 20 // of one session
	maxCodes = 64 << 20 // of all
	partSize = 1 << 20
)

// codeKey names a code. Namespaces share none: to know a hash does not give what it is of.
type codeKey struct {
	namespace string
	sha256    [sha256.Size]byte
}

// codes keeps the code that clients have sent. What was used least lately goes first, whole or not.
type codes struct {
	mu   sync.Mutex // held while a code is looked at or changed
	kept *lru.Cache[codeKey, *code]
}

// code is the code of a session, or parts of it.
type code struct {
	data    []byte // is not changed any more once nothing is missing
	has     []bool // which parts
	missing int
}

func newCodes() *codes { return &codes{kept: lru.New[codeKey, *code](maxCodes)} }

// get returns a code that is whole, and was checked.
func (c *codes) get(k codeKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.kept.Get(k); ok && a.missing == 0 {
		return a.data, true
	}
	return nil, false
}

// keyOf is the key of a ticket's code.
func keyOf(t *pb.Ticket) (codeKey, error) {
	k := codeKey{namespace: t.GetNamespace()}
	code := t.GetCode()
	if len(code.GetSha256()) != len(k.sha256) {
		return k, errors.New("the ticket names no code, which the program's functions are made of")
	}
	if size := code.GetSize(); size <= 0 || size > maxCode {
		return k, fmt.Errorf("the session's code has %d bytes; there may be %d", size, maxCode)
	}
	copy(k.sha256[:], code.GetSha256())
	return k, nil
}

// keep takes a part of the code that a ticket names. Parts may come in any order, and again.
func (c *codes) keep(t *pb.Ticket, part *pb.CodePart) error {
	k, err := keyOf(t)
	if err != nil {
		return err
	}
	size := t.GetCode().GetSize()
	at, data := part.GetOffset(), part.GetData()
	if !bytes.Equal(part.GetSha256(), k.sha256[:]) || part.GetSize() != size {
		return errors.New("a part of other code than the ticket's")
	}
	if at < 0 || at >= size || at%partSize != 0 || int64(len(data)) != min(partSize, size-at) {
		return fmt.Errorf("a part of %d bytes at %d of code of %d; want %d bytes, but for the last part, at multiples "+
			"of that", len(data), at, size, partSize)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.kept.Get(k)
	if !ok {
		n := int((size + partSize - 1) / partSize)
		a = c.kept.Add(k, &code{data: make([]byte, size), has: make([]bool, n), missing: n}, size)
	}
	i := at / partSize
	if a.missing == 0 || a.has[i] {
		return nil
	}
	copy(a.data[at:], data)
	a.has[i] = true
	if a.missing--; a.missing == 0 && sha256.Sum256(a.data) != k.sha256 {
		clear(a.has)
		a.missing = len(a.has)
		return errors.New("the parts of the code are not what its SHA-256 says; send them all again")
	}
	return nil
}
