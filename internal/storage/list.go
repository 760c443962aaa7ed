package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/file"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Kind says which of its files a directory stands for.
type Kind struct {
	// Ends are the endings of such files, for messages.
	Ends string
	// Has reports whether a file, which is not hidden, is one.
	Has func(uri string) bool
	// Together fails for files that a directory must not hold beside each other; nil: they all may.
	Together func(dir string, files []*pb.File) error
	// Bare: a directory stands for files without an ending, too. These are unknown, unless it has none that Has reports
	// and may stand for Spare.
	Bare bool
	// Spare are files that a directory stands for where it has none that Has reports; nil: there are none.
	Spare func(uri string) bool
	// Beside reports whether a file says where records of others are: it is left out, and not told of; nil: none does.
	Beside func(uri string) bool
	// NotEmpty: neither a directory nor a glob stands for files without bytes.
	NotEmpty bool
	// Met, if not nil, hears of each file of a directory that is not hidden, whatever becomes of it.
	Met func(uri string)
	// May, if not nil, says of a file that tells of others whether it may be read.
	May May
	// Own: files of a table's own are looked for, so that it is no fault if there is a table.
	Own bool
}

// data is the kind of files that are read to train from.
func data() Kind {
	return Kind{
		Ends: DataEndings(), Has: func(uri string) bool { return FormatOf(uri) != "" }, Together: oneFormat,
		Beside: func(uri string) bool { return isBeside(uri, nil) }, Bare: true, NotEmpty: true,
	}
}

// fate is what becomes of a name that a listing meets.
type fate uint8

const (
	unasked fate = iota // the URI does not stand for it
	hidden
	foreign // it is none of the kind
	empty
	spare
	unknown
	wanted
)

// fate is that of a file of a directory, which is not hidden.
func (k Kind) fate(f *pb.File) fate {
	met := foreign
	if k.Met != nil {
		k.Met(f.GetUri())
	}
	switch uri := f.GetUri(); {
	case k.Has(uri):
		met = wanted
	case k.Bare && isBare(uri):
		met = unknown
	case k.Spare != nil && k.Spare(uri):
		met = spare
	}
	if k.NotEmpty && f.GetSize() == 0 && met != foreign {
		return empty
	}
	return met
}

// List finds the files under URIs.
func (s *Store) List(ctx context.Context, profile string, uris []string) ([]*pb.File, error) {
	all, _, err := s.Find(ctx, profile, uris, data())
	return all, err
}

// Find finds the files under URIs as List does, but those of a kind, and tells of the others that it met.
func (s *Store) Find(ctx context.Context, profile string, uris []string, kind Kind) ([]*pb.File, Others, error) {
	var passed Others
	if len(uris) == 0 {
		return nil, passed, errors.New("list files: no URI is given; name a directory, a glob or a file")
	}
	cost, left := &spent{limits: s.listing}, metOnce(uris)
	ctx, cancel := cost.within(ctx)
	defer cancel()
	var all []*pb.File
	pins := make(pins)
	for _, given := range uris {
		uri, err := Canonical(given)
		if err != nil {
			return nil, passed, fmt.Errorf("list files: %w", err)
		}
		b, err := s.backend(profile, uri)
		if err == nil {
			uri, err = pins.pin(ctx, b, uri)
		}
		if err != nil {
			return nil, passed, fmt.Errorf("list %s: %w", uri, cost.explain(err))
		}
		l := listing{Backend: b, kind: kind, cost: cost, left: left}
		found, err := l.findAll(ctx, uri)
		if err != nil {
			return nil, passed, fmt.Errorf("list %s: %w", uri, cost.explain(err))
		}
		passed.add(l.others)
		for _, f := range found {
			f.KeysAt = uint32(keysAt(uri, f.GetUri()))
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b *pb.File) int { // the one of which most levels may be keys comes first
		return cmp.Or(cmp.Compare(a.Uri, b.Uri), cmp.Compare(a.KeysAt, b.KeysAt))
	})
	all = slices.CompactFunc(all, func(a, b *pb.File) bool { return a.Uri == b.Uri })
	for i, f := range all {
		if !utf8.ValidString(f.Uri) {
			return nil, passed, fmt.Errorf("list files: the name of %q is not UTF-8; give it another one", f.Uri)
		}
		f.Index = uint32(i)
	}
	return all, passed, nil
}

// Canonical turns what a user wrote into a URI with scheme and absolute path.
func Canonical(uri string) (string, error) {
	scheme, rest, ok := strings.Cut(uri, "://")
	authority, _, _ := strings.Cut(rest, "/")
	store, err := storeOf(uri)
	switch {
	case uri == "":
		return "", errors.New("a URI is empty; name a directory, a glob or a file")
	case strings.HasPrefix(uri, "pipe:"):
		return "", errors.New("pipe: is not read, as it has no places to go on from; name the files themselves, " +
			"such as s3://bucket/shards-{000000..000099}.tar")
	case !ok:
		return file.URI(uri)
	case err != nil && strings.Contains(authority, "@"): // what may be a password is not repeated: messages are logged
		return "", object.Secret(fmt.Errorf("a URI of scheme %s cannot be taken: %w", scheme, err))
	}
	if secret := Discreet(uri); secret != nil {
		return "", secret
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", uri, err)
	}
	return store.Canonical(uri)
}

// Discreet refuses a URI that holds what gives access, and does not repeat it.
func Discreet(uri string) error {
	scheme, rest, ok := strings.Cut(uri, "://")
	authority, _, _ := strings.Cut(rest, "/")
	switch {
	case !ok:
		return nil
	case object.HoldsSecret(uri) && scheme+"://" != file.Scheme:
		return fmt.Errorf("a URI of scheme %s cannot be taken: %w", scheme, object.ErrSecret)
	case strings.Contains(authority, "@") && !mayHaveName(scheme):
		return object.Secret(fmt.Errorf(
			"a URI of scheme %s holds credentials; they belong in a storage profile, which the spec names", scheme))
	}
	return nil
}

// mayHaveName reports whether a scheme's URIs may have a name before an "@".
func mayHaveName(scheme string) bool {
	return slices.ContainsFunc(stores(), func(s object.Store) bool { return slices.Contains(s.Named, scheme) })
}

// listing finds what one URI names.
type listing struct {
	object.Backend
	kind   Kind
	cost   *spent
	others Others
	left   met
	hidden string // the level that was told of last
}

// met are hashes of the names that several URIs left out, so that each is told of once; nil: there is one URI.
type met map[uint64]bool

func metOnce(uris []string) met {
	if len(uris) < 2 {
		return nil
	}
	return met{}
}

// again reports whether a name was met before.
func (m met) again(name string) bool {
	if m == nil {
		return false
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	before := m[h.Sum64()]
	m[h.Sum64()] = true
	return before
}

// keysAt is where in a file's URI the levels begin that the URI which found it does not fix.
func keysAt(uri, found string) int {
	if fixed := Fixed(uri); fixed != uri || uri == found {
		return strings.LastIndexByte(fixed, '/') + 1
	}
	return len(strings.TrimSuffix(uri, "/")) + 1
}

// find returns the files that a URI names, at least one.
func (l *listing) find(ctx context.Context, uri string) ([]*pb.File, error) {
	if isGlob(uri) {
		return l.findGlob(ctx, uri)
	}
	var denied, missing error
	if !strings.HasSuffix(uri, "/") {
		f, err := l.Stat(ctx, uri)
		switch {
		case err == nil:
			return []*pb.File{f}, nil
		case errors.Is(err, object.ErrDenied): // as to those who may list the directory only, of what is no file
			denied = err
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		default:
			missing = err
		}
	}
	dir := strings.TrimSuffix(uri, "/") + "/"
	q := object.Query{Prefix: dir, Enter: func(d string) bool { return hiddenLevel(dir, d) == "" }}
	found, err := l.collect(ctx, q, func(f *pb.File) fate {
		if hiddenLevel(dir, f.GetUri()) != "" {
			return hidden
		}
		return l.kind.fate(f)
	})
	if err == nil {
		err = l.together(dir, found)
	}
	if err == nil {
		err = l.checkRoot(ctx, dir, false)
	}
	switch {
	case errors.Is(err, object.ErrNoFolders) && (denied != nil || missing != nil):
		return nil, cmp.Or(denied, missing)
	case err != nil && denied != nil:
		return nil, fmt.Errorf("%w; and as a directory: %w", denied, err)
	case err != nil || len(found) > 0:
		return found, err
	case denied != nil:
		return nil, denied
	}
	looked := "files ending in " + l.kind.Ends + " below " + dir
	if dir != uri {
		looked = "a file of this name and " + looked
	}
	return nil, l.nothing(looked)
}

func (l *listing) findGlob(ctx context.Context, uri string) ([]*pb.File, error) {
	g, prefix, err := newGlob(uri)
	if err != nil {
		return nil, err
	}
	q := object.Query{Prefix: prefix, Flat: g.flat(), Enter: g.enter}
	found, err := l.collect(ctx, q, func(f *pb.File) fate { return g.fate(f, l.kind) })
	if err == nil && g.dirs {
		err = l.together(uri, found)
	}
	if err == nil {
		err = l.checkRoot(ctx, g.base, q.Flat || prefix != g.base)
	}
	if err != nil || len(found) > 0 {
		return found, err
	}
	looked := fmt.Sprintf("files that begin with %s and match", prefix)
	if g.dirs {
		looked = "files ending in " + l.kind.Ends + " below directories that match"
	}
	return nil, l.nothing(looked)
}

func (l *listing) together(dir string, files []*pb.File) error {
	if l.kind.Together == nil {
		return nil
	}
	return l.kind.Together(dir, files)
}

// tableOf and checkRoot refuse tables, unless it is files of their own that are wanted.
func (l *listing) tableOf(base, uri string) error {
	if l.kind.Own {
		return nil
	}
	return tableOf(base, uri)
}

func (l *listing) checkRoot(ctx context.Context, base string, part bool) error {
	if l.kind.Own {
		return nil
	}
	return checkRoot(ctx, l.Backend, base, part)
}

// Others tells of files that were met and are not wanted.
type Others struct {
	Count   int
	Example string // one of them
	Left    LeftOut

	shardIndexes []*pb.File // of whole folders
}

// noteIndex notes an index of shards.
func (o *Others) noteIndex(f *pb.File) {
	if path.Base(f.GetUri()) == shardIndex && len(o.shardIndexes) < maxShardIndexes {
		o.shardIndexes = append(o.shardIndexes, f)
	}
}

func (o *Others) add(more Others) {
	if o.Count += more.Count; more.Count > 0 {
		o.Example = more.Example
	}
	o.Left.Foreign.join(more.Left.Foreign)
	o.Left.Empty.join(more.Left.Empty)
	o.Left.Hidden.join(more.Left.Hidden)
	o.Left.Markers.join(more.Left.Markers)
	o.Left.Dangling.join(more.Left.Dangling)
	o.shardIndexes = append(o.shardIndexes, more.shardIndexes...)
}

func (l *listing) collect(ctx context.Context, q object.Query, of func(*pb.File) fate) ([]*pb.File, error) {
	var found []*pb.File
	var table error // that was met in a directory which is not entered
	base := q.Prefix[:strings.LastIndexByte(q.Prefix, '/')+1]
	if enter := q.Enter; enter != nil {
		q.Enter = func(dir string) bool {
			if err := l.tableOf(base, dir); err != nil {
				table = err
			}
			entered := enter(dir)
			if !entered && of(&pb.File{Uri: dir}) == hidden {
				l.leave(hidden, base, dir)
			}
			return entered
		}
	}
	q.Dangling = func(uri string) {
		switch met := of(&pb.File{Uri: uri}); {
		case met == unasked:
		case met == hidden:
			l.leave(hidden, base, uri)
		case !l.left.again(uri):
			l.others.Left.Dangling.Add(uri)
		}
	}
	var spares []*pb.File // as long as there is none that is wanted
	var bare []*pb.File
	own := false
	err := l.List(ctx, q, func(f *pb.File) error {
		met := of(f)
		if met == wanted && !own {
			own = true
			for _, f := range spares {
				l.cost.giveBack(f)
				l.pass(foreign, base, f.GetUri())
			}
			spares = nil
		}
		switch {
		case met == spare && !own:
			spares = append(spares, f)
		case met == spare:
			met = foreign
			fallthrough
		case met < spare:
			l.pass(met, base, f.GetUri())
			if met == foreign {
				l.others.noteIndex(f)
			}
			return l.tableOf(base, f.Uri)
		default:
			if met == unknown {
				bare = append(bare, f)
			}
			found = append(found, f)
		}
		if err := l.cost.add(f); err != nil || met == wanted {
			return err
		}
		return l.tableOf(base, f.Uri)
	})
	for _, f := range bare {
		f.Unknown = own || l.kind.Spare == nil
	}
	return append(found, spares...), cmp.Or(err, table)
}

// pass counts a file that is not taken.
func (l *listing) pass(met fate, base, uri string) {
	l.others.Count++
	l.others.Example = uri
	l.leave(met, base, uri)
	l.cost.others++
}

// ours is the hidden directory of what Penstock writes beside data, such as indexes.
const ours = "_penstock"

// leave tells of a name that is left out. What lies in one hidden directory is told of once, and of what lies beside
// data and is read with it, or is Penstock's own, nothing is told.
func (l *listing) leave(met fate, base, uri string) {
	left := &l.others.Left
	if met == hidden {
		level := hiddenLevel(base, uri)
		if level == l.hidden {
			return
		}
		l.hidden, uri = level, level
		if path.Base(level) == ours {
			return
		}
	}
	switch {
	case met == unasked || l.left.again(uri):
	case met == foreign && l.kind.Beside != nil && l.kind.Beside(uri):
	case met == foreign:
		left.Foreign.Add(uri)
	case met == empty:
		left.Empty.Add(uri)
	case isMarker(uri):
		left.Markers.Add(uri)
	default:
		left.Hidden.Add(uri)
	}
}

// hiddenLevel is the first level below base, which ends in "/", that hides what a URI names; "" if it is not hidden.
func hiddenLevel(base, uri string) string {
	rest := strings.TrimPrefix(uri, base)
	for at := 0; at < len(rest); {
		name, _, more := strings.Cut(rest[at:], "/")
		if at += len(name); isHidden(name) {
			return base + rest[:at]
		}
		if more {
			at++
		}
	}
	return ""
}

// nothing is the error of a URI without files.
func (l *listing) nothing(looked string) error {
	if l.others.Count == 0 {
		return fmt.Errorf("nothing found; looked for %s: %w", looked, fs.ErrNotExist)
	}
	err := fmt.Errorf("nothing found; looked for %s; files that are no data were passed over, such as %s: %w",
		looked, l.others.Example, fs.ErrNotExist)
	if IsText(l.others.Example) {
		return fmt.Errorf("%w; %s", err, AsText)
	}
	return err
}
