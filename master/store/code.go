package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
)

// The code of sessions' Python functions lies apart from the sessions, by namespace and hash: a session names it, and
// so do all of a namespace that have the same. A head says that it is there, once all parts are and the hash is theirs.
// What no session names any more is deleted some time after it was used last.

const (
	// maxCode bounds the code of a namespace, in bytes, and maxCodes how many there are.
	maxCode, maxCodes = 64 << 20, 512
	// codeNoted is how old a head's time may grow while its code is used.
	codeNoted = 10 * time.Minute
	// codeTries is how often a write of code begins again because the head has changed.
	codeTries = 4
)

// Code names the bytes of a session's code.
type Code struct {
	Namespace string
	SHA256    [sha256.Size]byte
}

// CodeOf names code that a caller describes.
func CodeOf(namespace string, sum []byte) (c Code) {
	c.Namespace = namespace
	copy(c.SHA256[:], sum)
	return c
}

// codeHead is a head as it was read.
type codeHead struct {
	*pb.CodeHead
	revision int64
}

// codeHead reads a head; nil if there is none.
func (s *Store) codeHead(ctx context.Context, c Code) (*codeHead, error) {
	kv, err := s.get(ctx, s.keys.codeHead(c))
	if err != nil || kv == nil {
		return nil, err
	}
	head := &codeHead{&pb.CodeHead{}, kv.ModRevision}
	return head, unmarshal(kv, head.CodeHead)
}

// UseCode reports whether code is there, all of it, and sees to it that it is not swept soon.
func (s *Store) UseCode(ctx context.Context, lead *Leadership, c Code, now time.Time) (bool, error) {
	for try := 1; ; try++ {
		head, err := s.codeHead(ctx, c)
		if err != nil || !head.whole() {
			return false, err
		}
		if now.Sub(time.UnixMilli(head.GetUsedUnixMs())) < codeNoted {
			return true, nil
		}
		head.UsedUnixMs = now.UnixMilli()
		if _, err = s.putCodeHead(ctx, lead, c, head); err == nil {
			return true, nil
		}
		if !errors.Is(err, ErrConflict) || try == codeTries { // by another use, or by a sweep
			return false, err
		}
	}
}

func (h *codeHead) whole() bool { return h != nil && h.GetWhole() }

// putCodeHead replaces the head that was read, or adds one of revision 0. It compares more, if that is given.
func (s *Store) putCodeHead(
	ctx context.Context, lead *Leadership, c Code, head *codeHead, when ...clientv3.Cmp,
) (revision int64, err error) {
	key := s.keys.codeHead(c)
	value, err := proto.Marshal(head.CodeHead)
	if err != nil {
		return 0, fmt.Errorf("store: %s: %w", key, err)
	}
	w := write{name: "note a session's code", when: append(when, unchanged(key, head.revision))}
	w.put(key, value)
	revision, _, err = s.run(ctx, lead, w)
	return revision, err
}

// PutCode writes a part of code; they come in order. With the last one, the code is there, if the hash is that of all.
// What is there already is not written again. It fails with ErrNoCode if parts before are missing, with ErrCodeFull if
// the namespace may have no more, and with ErrCodeHash if the bytes are others.
func (s *Store) PutCode(ctx context.Context, lead *Leadership, namespace string, p *pb.CodePart, now time.Time) error {
	c := CodeOf(namespace, p.GetSha256())
	for try := 1; ; try++ {
		head, err := s.codeHead(ctx, c)
		if err != nil || head.whole() {
			return err
		}
		if p.GetOffset() == 0 && (head == nil || head.GetSize() != p.GetSize()) {
			head, err = s.beginCode(ctx, lead, c, p.GetSize(), now)
		} else if head == nil || head.GetSize() != p.GetSize() {
			return fmt.Errorf("%w: %x: begin with its first part", ErrNoCode, p.GetSha256())
		}
		if err == nil {
			err = s.putCodePart(ctx, lead, c, head, p)
		}
		if !errors.Is(err, ErrConflict) || try == codeTries { // somebody else sends the same
			return err
		}
	}
}

// beginCode writes the head of code that is about to come, in place of one of another size.
func (s *Store) beginCode(ctx context.Context, lead *Leadership, c Code, size int64, now time.Time) (*codeHead, error) {
	select {
	case s.coding <- struct{}{}:
		defer func() { <-s.coding }()
	case <-ctx.Done():
		return nil, fmt.Errorf("store: put code: %w", ctx.Err())
	}
	dir := s.keys.codeHeadsOf(c.Namespace)
	head := &codeHead{CodeHead: &pb.CodeHead{
		Size: size, Parts: uint32(code.Count(size)), UsedUnixMs: now.UnixMilli(),
	}}
	var kept int64
	n := 0
	err := s.scan(ctx, dir, dir, after(dir), 0, endedScan, func(_ string, kv *mvccpb.KeyValue) error {
		if string(kv.Key) == s.keys.codeHead(c) {
			head.revision = kv.ModRevision
			return nil
		}
		other := &pb.CodeHead{}
		n++
		err := unmarshal(kv, other)
		kept += other.GetSize()
		return err
	})
	if err != nil {
		return nil, err
	}
	if kept+size > maxCode || n == maxCodes {
		return nil, fmt.Errorf("%w: the functions of namespace %s's sessions have %d codes of %s together, and %s "+
			"more do not fit: it may have %d of %s; end sessions that are not needed (what no running session has is "+
			"deleted within the hour), or have functions bring less with them", ErrCodeFull, c.Namespace, n,
			humanize.IBytes(uint64(kept)), humanize.IBytes(uint64(size)), maxCodes, humanize.IBytes(maxCode))
	}
	head.revision, err = s.putCodeHead(ctx, lead, c, head)
	return head, err
}

// putCodePart writes a part below a head that is as it was read, and with the last part ends the code.
func (s *Store) putCodePart(ctx context.Context, lead *Leadership, c Code, head *codeHead, p *pb.CodePart) error {
	n := int(p.GetOffset() / code.PartBytes)
	w := write{name: "put a session's code", when: []clientv3.Cmp{unchanged(s.keys.codeHead(c), head.revision)}}
	w.put(s.keys.codePart(c, n), p.GetData())
	if _, _, err := s.run(ctx, lead, w); err != nil {
		return err
	}
	if n+1 < int(head.GetParts()) {
		return nil
	}
	return s.endCode(ctx, lead, c, head)
}

// endCode has code be there, if the parts that lie there are those of its hash, and go on to lie there. Else it deletes
// them.
func (s *Store) endCode(ctx context.Context, lead *Leadership, c Code, head *codeHead) error {
	hash, size := sha256.New(), int64(0)
	var same []clientv3.Cmp
	for n := range int(head.GetParts()) {
		key := s.keys.codePart(c, n)
		kv, err := s.get(ctx, key)
		switch {
		case err != nil:
			return err
		case kv == nil:
			return fmt.Errorf("%w: %x: part %d of %d is missing", ErrNoCode, c.SHA256, n+1, head.GetParts())
		}
		_, _ = hash.Write(kv.Value) // never fails
		size += int64(len(kv.Value))
		same = append(same, unchanged(key, kv.ModRevision))
	}
	if size != head.GetSize() || !bytes.Equal(hash.Sum(nil), c.SHA256[:]) {
		if err := s.deleteCode(ctx, lead, c, head.revision); err != nil {
			return err
		}
		return ErrCodeHash
	}
	whole := *head
	whole.CodeHead = proto.CloneOf(head.CodeHead)
	whole.Whole = true
	_, err := s.putCodeHead(ctx, lead, c, &whole, same...)
	return err
}

func (s *Store) deleteCode(ctx context.Context, lead *Leadership, c Code, revision int64) error {
	_, _, err := s.run(ctx, lead, write{
		name: "delete a session's code",
		when: []clientv3.Cmp{unchanged(s.keys.codeHead(c), revision)},
		then: []clientv3.Op{
			clientv3.OpDelete(s.keys.codeHead(c)), clientv3.OpDelete(s.keys.codeParts(c), clientv3.WithPrefix()),
		},
	})
	return err
}

// CodePart reads a part of code, or returns ErrNoCode.
func (s *Store) CodePart(ctx context.Context, c Code, part int) ([]byte, error) {
	kv, err := s.get(ctx, s.keys.codePart(c, part))
	if err == nil && kv == nil {
		err = fmt.Errorf("%w: %x", ErrNoCode, c.SHA256)
	}
	if err != nil {
		return nil, err
	}
	return kv.Value, nil
}

// SweepCode deletes code that was used last before a time, but for what is in use.
func (s *Store) SweepCode(ctx context.Context, lead *Leadership, before time.Time, inUse func(Code) bool) error {
	dir := s.keys.codeHeads()
	return s.scan(ctx, dir, dir, after(dir), 0, endedScan, func(key string, kv *mvccpb.KeyValue) error {
		c, ok := codeOf(key)
		head := &pb.CodeHead{}
		ok = ok && proto.Unmarshal(kv.Value, head) == nil // else it is of somebody else
		if !ok || head.GetUsedUnixMs() >= before.UnixMilli() || inUse(c) {
			return nil
		}
		err := s.deleteCode(ctx, lead, c, kv.ModRevision)
		if errors.Is(err, ErrConflict) { // it has just been used
			return nil
		}
		return err
	})
}

// SetCode has a session name other code than before: its Meta is another one from then on.
func (s *Store) SetCode(ctx context.Context, lead *Leadership, session *Session, c *pb.StoredCode) error {
	name := fmt.Sprintf("change the code of session %q", session.Name)
	if session.stale {
		return fmt.Errorf("%w: %s", ErrStale, name)
	}
	meta := proto.CloneOf(session.Meta)
	meta.Session.Code = c
	value, err := s.encodeMeta(meta)
	if err != nil {
		return fmt.Errorf("store: %s: %w", name, err)
	}
	key := s.keys.session(session.Name) + keyMeta
	w := write{name: name, when: []clientv3.Cmp{unchanged(key, session.fence)}}
	w.put(key, value)
	revision, _, err := s.run(ctx, lead, w)
	if session.stale = errors.Is(err, ErrConflict) || errors.Is(err, ErrUnknown); err != nil {
		return err
	}
	session.Meta, session.fence = meta, revision
	return nil
}
