package store

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/penstock-ml/penstock/internal/identity"
)

// maxID bounds a session's id.
const maxID = 256

// Name names a session among those of all namespaces, in each of which ids are unique. It stands in the session's keys:
// its id, escaped, after the namespace and a comma, unless that is the default one.
type Name string

// NameOf returns a session's name.
func NameOf(namespace, id string) Name {
	if namespace == "" || namespace == identity.DefaultNamespace {
		return Name(url.PathEscape(id))
	}
	return Name(url.PathEscape(namespace) + separator + url.PathEscape(id))
}

// separator does not occur in what was escaped.
const separator = ","

// Split returns a session's namespace and id; the id is "" of what is no name.
func (n Name) Split() (namespace, id string) {
	namespace, escaped, other := strings.Cut(string(n), separator)
	if !other {
		namespace, escaped = identity.DefaultNamespace, string(n)
	}
	id, err := url.PathUnescape(escaped)
	if err != nil {
		return "", ""
	}
	return namespace, id
}

// String is for people, and no other session's: the id, after the namespace and a slash, unless that is the default
// one and the id has none.
func (n Name) String() string {
	namespace, id := n.Split()
	if namespace == identity.DefaultNamespace && !strings.Contains(id, "/") {
		return id
	}
	return namespace + "/" + id
}

// layout names the keys. Numbers have a fixed width, so that keys lie in numeric order.
type layout struct{ prefix string }

func (l layout) elections() string        { return l.prefix + "leader/" }
func (l layout) events() string           { return l.prefix + "events/" }
func (l layout) sessions() string         { return l.prefix + "s/" }
func (l layout) session(name Name) string { return l.sessions() + string(name) + "/" }

// Of a session that is closed or sleeps there are a summary, and an empty key among those of all, the newest first.
func (l layout) closed(name Name) string { return l.prefix + "closed/" + string(name) }
func (l layout) ended() string           { return l.prefix + "ended/" }
func (l layout) endedAt(unixMs int64, name Name) string {
	return fmt.Sprintf("%s%020d/%s", l.ended(), math.MaxInt64-unixMs, string(name))
}

// Checkpoints lie apart from their session's other keys, which they outlive.
func (l layout) checkpoints(name Name) string { return l.prefix + "checkpoint/" + string(name) + "/" }

func (l layout) checkpoint(name Name, checkpoint string) string {
	return l.checkpoints(name) + url.PathEscape(checkpoint)
}

// Of code there are a head, and parts, of which there may be many: apart, so that all heads are read without them.
func (l layout) codeHeads() string { return l.prefix + "codes/" }

func (l layout) codeHeadsOf(namespace string) string {
	return l.codeHeads() + url.PathEscape(cmp.Or(namespace, identity.DefaultNamespace)) + "/"
}

func (l layout) codeHead(c Code) string {
	return l.codeHeadsOf(c.Namespace) + hex.EncodeToString(c.SHA256[:])
}

func (l layout) codeParts(c Code) string {
	return l.prefix + "code/" + strings.TrimPrefix(l.codeHead(c), l.codeHeads()) + "/"
}

func (l layout) codePart(c Code, part int) string { return fmt.Sprintf("%s%04d", l.codeParts(c), part) }

// codeOf returns the code that a head's key, the dir of all heads cut off, is of, and whether it is of one.
func codeOf(key string) (c Code, ok bool) {
	namespace, sum, _ := strings.Cut(key, "/")
	raw, err := hex.DecodeString(sum)
	if err != nil || len(raw) != len(c.SHA256) {
		return c, false
	}
	copy(c.SHA256[:], raw)
	c.Namespace, err = url.PathUnescape(namespace)
	return c, err == nil
}

func (l layout) allReads() string { return l.prefix + "features/" }

func (l layout) readsOf(namespace string) string {
	return l.allReads() + url.PathEscape(cmp.Or(namespace, identity.DefaultNamespace)) + "/"
}

func (l layout) reads(name ReadsName) string {
	return l.readsOf(name.Namespace) + url.PathEscape(name.Prefix)
}

func (l layout) event(number uint64) string { return fmt.Sprintf("%s%020d", l.events(), number) }

// Keys of one session, below its own prefix.
const (
	keyMeta = "meta"
	keyHead = "head"
	dirList = "list/"
	dirFoot = "foot/"
	dirRank = "rank/"
	// dirCheckpoint is where earlier releases keep a session's checkpoints.
	dirCheckpoint = "checkpoint/"
)

func pageKey(page int) string      { return fmt.Sprintf("%s%08d", dirList, page) }
func rankKey(rank uint32) string   { return fmt.Sprintf("%s%010d", dirRank, rank) }
func epochDir(epoch uint32) string { return fmt.Sprintf("%s%010d/", dirFoot, epoch) }

func blockDir(b BlockID) string { return fmt.Sprintf("%s%010d/", epochDir(b.Epoch), b.Index) }

func partKey(b BlockID, part int) string { return fmt.Sprintf("%s%04d", blockDir(b), part) }

// check refuses names that could not be a key.
func (n Name) check() error {
	if _, id := n.Split(); id == "" || len(id) > maxID {
		return fmt.Errorf("store: a session's id has 1 to %d bytes, not %d", maxID, len(id))
	}
	return nil
}

// sessionOf returns the session that a key belongs to, and whether it belongs to one.
func (l layout) sessionOf(key string) (Name, bool) {
	name, _, ok := strings.Cut(strings.TrimPrefix(key, l.sessions()), "/")
	namespace, id := Name(name).Split()
	return Name(name), ok && NameOf(namespace, id) == Name(name)
}

// numbers reads the slash-separated numbers of a key below dir.
func numbers(key, dir string, want int) ([]uint32, error) {
	fields := strings.Split(strings.TrimPrefix(key, dir), "/")
	if len(fields) != want {
		return nil, fmt.Errorf("%w: key %q", ErrCorrupt, key)
	}
	out := make([]uint32, len(fields))
	for i, f := range fields {
		n, err := strconv.ParseUint(f, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: key %q: %w", ErrCorrupt, key, err)
		}
		out[i] = uint32(n)
	}
	return out, nil
}

// after is the first key after all that begin with prefix.
func after(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }
