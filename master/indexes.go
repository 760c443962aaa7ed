package master

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/lru"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/plan"
)

const (
	// storedFrom is how long an index took to make that lies in etcd: others are soon made again.
	storedFrom = time.Second
	// storedAgain is how often an index that is used is written again, lest it make room for others.
	storedAgain = time.Hour
)

// errIndexRefused says that no worker makes an index, for reasons of its own.
var errIndexRefused = errors.New("no worker indexes the file")

// indexer has workers make the indexes of files that bring none, and keeps them. It may be used by many goroutines at
// once.
type indexer struct {
	places  *placement
	signer  *ticket.Signer
	pool    *rpc.Pool
	storage storage.Storage
	files   *formats.Cache
	known   *knownIndexes
	stored  *lru.Cache[indexKey, time.Time] // when they were written to etcd
	// worth is how long it takes to make an index that lies in etcd.
	worth time.Duration
	// term is that of now, if this master leads: only then does it write to etcd.
	term func() *term
}

// indexKey names an index: the same file, version and options have the same one; of a file whose ETag is weak, within a
// session alone.
type indexKey struct {
	profile, uri string
	of           index.Of
	session      string // "": all
}

func newIndexer(m *Master) *indexer {
	return &indexer{
		places: m.places, signer: m.signer, pool: m.counts.pool, storage: m.cfg.Storage, files: m.described,
		known: newKnownIndexes(), stored: lru.New[indexKey, time.Time](digestBytes),
		worth: storedFrom, term: m.leading,
	}
}

// indexing is what a session's block needs of indexes.
type indexing struct {
	*indexer
	session *pb.Session
	program *pb.Program
	text    []byte // the program, serialised
	logger  *slog.Logger
	// recorded is the digest of a file's index in an earlier block of the session; "": none is known.
	recorded func(uri string) string
	// made says to use nothing but what workers made: what lies beside the data differs from what is known.
	made bool
}

// scanned is a file of a block that is to be indexed.
type scanned struct {
	*plan.File
	format.Scanned
	of     index.Of
	before recordedIndex
}

func (x *indexing) key(f *scanned) indexKey {
	key := indexKey{profile: x.program.GetStorage(), uri: f.GetUri(), of: f.of}
	if s := x.session; storage.IsWeak(f) {
		key.session = fmt.Sprintf("%s/%s, opened at %d", s.GetNamespace(), s.GetId(), s.GetCreatedUnix())
	}
	return key
}

// whole gives those of a block's files their extents that say nothing of them: by an index that is kept, that lies
// beside the data, or that a worker makes. It asks until it has all, unless workers go on refusing, or saying that data
// are bad.
func (x *indexing) whole(ctx context.Context, files []plan.File) error {
	found, err := x.find(ctx, files)
	if err != nil {
		return err
	}
	left := map[string]*scanned{}
	var shards []*pb.Shard
	for _, f := range found {
		if f.IndexDigest != nil {
			continue
		}
		left[f.GetUri()] = f
		// Of a file that is read from its front on, the worker is asked that reads its first extent.
		shards = append(shards, &pb.Shard{File: f.File.File, Extents: []*pb.Extent{{}}})
	}
	return (&errand{
		places: x.places, logger: x.logger, refused: errIndexRefused,
		lonely: "files are to be indexed before they can be granted, and the fleet has no worker; waiting for one",
		again:  "workers cannot index all files yet; asking again",
		from: func(ctx context.Context, w *pb.Worker, all []*pb.Worker, s *pb.Shard) error {
			return x.from(ctx, w, all, left[s.GetFile().GetUri()])
		},
	}).all(ctx, shards)
}

// find returns the files that need an index, and has those use one of which there is one.
func (x *indexing) find(ctx context.Context, files []plan.File) ([]*scanned, error) {
	var out []*scanned
	var named []*pb.File
	for i := range files {
		if of, ok := files[i].Holds.(format.Beside); ok {
			if err := recordedIndex(x.recorded(files[i].GetUri())).admits(of.Digest()); err != nil {
				return nil, fmt.Errorf("%s: %w", files[i].GetUri(), err)
			}
		}
		if of, ok := files[i].Holds.(format.Scanned); ok {
			out = append(out, &scanned{
				&files[i], of, index.For(files[i].File, of, x.program.GetFormat()),
				recordedIndex(x.recorded(files[i].GetUri())),
			})
			named = append(named, files[i].File)
		}
	}
	return out, eachOf(ctx, named, func(int) {}, func(ctx context.Context, i int) error {
		f := out[i]
		if made := x.files.Small(x.program.GetStorage(), f.File.File, x.program.GetFormat()); made != nil {
			if err := x.take(f, made, true); err != nil {
				return fmt.Errorf("%s: %w", f.GetUri(), err)
			}
			return f.use(made)
		}
		if kept := x.known.get(x.key(f), f.before, x.made); kept != nil {
			x.used(ctx, f, kept, false)
			return f.use(kept)
		}
		for _, place := range []struct {
			name string
			find func(context.Context, *scanned) (*index.Index, error)
			etcd bool // where nothing lies but what workers made
		}{{"etcd", x.inStore, true}, {"beside the data", x.besideData, false}} {
			if x.made && !place.etcd {
				continue
			}
			made, err := place.find(ctx, f)
			if made != nil {
				if err = x.take(f, made, place.etcd); err == nil {
					if place.etcd {
						x.used(ctx, f, made, true)
					}
					return f.use(made)
				}
			}
			if err != nil && ctx.Err() == nil {
				x.logger.Warn("an index cannot be used; it is looked for elsewhere, or made again", "file", f.GetUri(),
					"where", place.name, "error", err)
			}
		}
		return context.Cause(ctx)
	})
}

func (x *indexing) besideData(ctx context.Context, f *scanned) (*index.Index, error) {
	return x.files.Beside(ctx, x.storage, x.program.GetStorage(), f.File.File, f.of)
}

// take takes an index that was found, or that a worker made, if it is believable.
func (x *indexing) take(f *scanned, made *index.Index, byWorker bool) error {
	if _, err := made.Open(f.Scanned, f.of); err != nil {
		return err
	}
	other, err := x.known.add(x.key(f), f.before, made, byWorker)
	if other {
		x.logger.Warn("the index of a file that lies beside the data is not the one that a worker makes, and is not "+
			"used any more; remove it", "file", f.GetUri(), "folder", beside.Folder)
	}
	return err
}

// takeListed takes an index that a worker made by a list of records, if it is believable. It is not remembered: if the
// list is wrong, which shows when records are read, the file is read by another one once that is mended or removed.
func (x *indexing) takeListed(f *scanned, made *index.Index, list string) error {
	if _, err := made.Open(f.Scanned, f.of); err != nil {
		return err
	}
	if err := x.known.admits(x.key(f), f.before, made); err != nil {
		return fmt.Errorf("%w, or what lists its records, %s, is wrong: make that again, or remove it", err, list)
	}
	return nil
}

// use has a file have the extents of an index that is believable.
func (f *scanned) use(x *index.Index) error {
	holds, err := x.Open(f.Scanned, f.of)
	if err != nil {
		return fmt.Errorf("%s: %w", f.GetUri(), err)
	}
	f.Holds, f.IndexDigest = holds, x.Digest()
	return nil
}

// from has a worker make the index of a file.
func (x *indexing) from(ctx context.Context, w *pb.Worker, all []*pb.Worker, f *scanned) error {
	request, err := signedRequest(x.signer, &pb.Ticket{
		Session: x.session.GetId(), Namespace: x.session.GetNamespace(), File: f.File.File,
		ProgramDigest: []byte(ticket.Digest(x.text)), Workers: all, ExpiresUnix: time.Now().Add(ticketLife).Unix(),
		Weight: x.session.GetShare().GetWeight(),
	}, x.text)
	if err != nil {
		return err
	}
	var data bytes.Buffer
	var trailer metadata.MD
	began := time.Now()
	err = action(ctx, x.pool, w, "index", request, func(body []byte) (bool, error) {
		if data.Len()+len(body) > index.MaxBytes {
			return false, status.Errorf(codes.Aborted, "it sent an index of more than %d bytes", index.MaxBytes)
		}
		data.Write(body)
		return false, nil
	}, grpc.Trailer(&trailer))
	if !errors.Is(err, io.EOF) {
		return err
	}
	list := strings.Join(trailer.Get(rpc.ListTrailer), "")
	made, err := index.Parse(data.Bytes())
	if err == nil && list != "" {
		err = x.takeListed(f, made, list)
	} else if err == nil {
		err = x.take(f, made, true)
	}
	if _, ok := errors.AsType[*otherIndexError](err); ok {
		return status.Errorf(codes.DataLoss, "%s: %v", f.GetUri(), err)
	}
	if err == nil {
		err = f.use(made)
	}
	if err != nil {
		return status.Errorf(codes.Aborted, "%s: it sent what is no index of the file: %v", f.GetUri(), err)
	}
	if list == "" && time.Since(began) >= x.worth {
		x.store(ctx, f, made)
	}
	return nil
}

// index has a block's files use their indexes, and fails if these are not those that the block had before; "": it is
// not known which.
func (p *blockPlanner) index(ctx context.Context, epoch, block uint32, files []plan.File, before string) (
	out pinnedFiles, err error,
) {
	x, err := p.indexing(epoch, block)
	if err != nil {
		return nil, err
	}
	for _, x.made = range []bool{false, true} {
		indexed := slices.Clone(files)
		if err = x.whole(ctx, indexed); err != nil {
			return nil, err
		}
		out = pinnedOf(indexed)
		if err = out.differ(before); err == nil {
			copy(files, indexed)
			return out, nil
		}
		if errors.Is(err, storage.ErrChanged) {
			return nil, err
		}
		x.logger.Warn("a block's files have other indexes than before", "made_by_workers", x.made, "error", err)
	}
	return nil, err
}

// indexing is what the planner's blocks need.
func (p *blockPlanner) indexing(epoch, block uint32) (*indexing, error) {
	text, err := spec.Marshal(p.program)
	if err != nil {
		return nil, fmt.Errorf("master: %w", err)
	}
	return &indexing{
		indexer: p.indexes, session: p.session, program: p.program, text: text,
		logger: p.logger.With("epoch", epoch, "block", block), recorded: p.recordedOf,
	}, nil
}
