package python

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/lru"
)

// maxCodes bounds the bytes of all codes.
const maxCodes = 64 << 20

// codeKey names a code. Namespaces share none: to know a hash does not give what it is of.
type codeKey struct {
	namespace string
	sha256    [sha256.Size]byte // of its bytes, or, by name, the digest of its identity
	named     bool
}

// codes keeps the code that clients have sent. What was used least lately goes first, whole or not.
type codes struct {
	mu   sync.Mutex // held while a code is looked at or changed
	kept *lru.Cache[codeKey, *assembly]
}

// assembly is the code of a session, or parts of it.
type assembly struct {
	data    []byte // is not changed any more once nothing is missing
	has     []bool // which parts
	missing int
}

func newCodes() *codes { return &codes{kept: lru.New[codeKey, *assembly](maxCodes)} }

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
	k := codeKey{namespace: t.GetNamespace(), named: isNamed(t)}
	if t.GetCode() == nil {
		return k, errors.New("the ticket names no code, which the program's functions are made of")
	}
	what, digest := "SHA-256 of the ticket's code", t.GetCode().GetSha256()
	if k.named {
		what, digest = "digest of the ticket's functions", t.GetCode().GetIdentity().GetDigest()
	}
	if n := len(digest); n != len(k.sha256) {
		return k, fmt.Errorf("the %s has %d bytes; want %d", what, n, len(k.sha256))
	}
	copy(k.sha256[:], digest)
	return k, nil
}

// keep takes a part of the code that a ticket names. Parts may come in any order, and again.
func (c *codes) keep(t *pb.Ticket, part *pb.CodePart) error {
	k, err := keyOf(t)
	if err != nil {
		return err
	}
	if k.named {
		return errors.New("the ticket's functions are by name, which have no bytes")
	}
	if err := code.CheckPart(part); err != nil {
		return err
	}
	size := t.GetCode().GetSize()
	if !bytes.Equal(part.GetSha256(), k.sha256[:]) || part.GetSize() != size {
		return errors.New("a part of other code than the ticket's")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.kept.Get(k)
	if !ok {
		n := code.Count(size)
		a = c.kept.Add(k, &assembly{data: make([]byte, size), has: make([]bool, n), missing: n}, size)
	}
	i := part.GetOffset() / code.PartBytes
	if a.missing == 0 || a.has[i] {
		return nil
	}
	copy(a.data[part.GetOffset():], part.GetData())
	a.has[i] = true
	if a.missing--; a.missing > 0 {
		return nil
	}
	if err := code.CheckWhole(t.GetCode(), a.data); err != nil {
		clear(a.has)
		a.missing = len(a.has)
		return fmt.Errorf("%w; send all of them again", err)
	}
	return nil
}
