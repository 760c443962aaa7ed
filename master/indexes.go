package master

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/lru"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master/plan"
)

// indexBytes bounds the indexes that are kept in memory.
const indexBytes = 128 << 20

// errIndexRefused says that no worker makes an index, for reasons of its own.
var errIndexRefused = errors.New("no worker indexes the file")

// indexer has workers make the indexes of files that bring none, and keeps them. It may be used by many goroutines at
// once.
type indexer struct {
	places *placement
	signer *ticket.Signer
	pool   *rpc.Pool
	kept   *lru.Cache[indexKey, *index.Index]
}

// indexKey names an index: the same file, version and options have the same one.
type indexKey struct {
	profile, uri string
	of           index.Of
}

func newIndexer(places *placement, signer *ticket.Signer, pool *rpc.Pool) *indexer {
	return &indexer{places: places, signer: signer, pool: pool, kept: lru.New[indexKey, *index.Index](indexBytes)}
}

// indexing is what a session's block needs of indexes.
type indexing struct {
	*indexer
	session *pb.Session
	program *pb.Program
	text    []byte // the program, serialised
	logger  *slog.Logger
}

// scanned is a file of a block that is to be indexed.
type scanned struct {
	*plan.File
	format.Scanned
	of index.Of
}

func (x *indexing) key(f *scanned) indexKey {
	return indexKey{x.program.GetStorage(), f.GetUri(), f.of}
}

// whole gives those of a block's files their extents that say nothing of them: by an index that is kept, or that a
// worker makes. It asks until it has all, unless workers go on refusing, or saying that data are bad.
func (x *indexing) whole(ctx context.Context, files []plan.File) error {
	left := map[string]*scanned{}
	var shards []*pb.Shard
	for i := range files {
		of, ok := files[i].Holds.(format.Scanned)
		if !ok {
			continue
		}
		f := &scanned{&files[i], of, index.For(files[i].File, of, x.program.GetFormat())}
		if kept, ok := x.kept.Get(x.key(f)); ok {
			if err := f.use(kept); err != nil {
				return err
			}
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

// use has a file have the extents of an index.
func (f *scanned) use(x *index.Index) error {
	holds, err := x.Open(f.Scanned, f.of)
	if err != nil {
		return fmt.Errorf("%s: %w", f.GetUri(), err)
	}
	f.Holds, f.Index = holds, x.Digest()
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
	err = action(ctx, x.pool, w, "index", request, func(body []byte) (bool, error) {
		if data.Len()+len(body) > index.MaxBytes {
			return false, status.Errorf(codes.Aborted, "it sent an index of more than %d bytes", index.MaxBytes)
		}
		data.Write(body)
		return false, nil
	})
	if !errors.Is(err, io.EOF) {
		return err
	}
	made, err := index.Parse(data.Bytes())
	if err == nil {
		err = f.use(made)
	}
	if err != nil {
		return status.Errorf(codes.Aborted, "it sent an index that is none of the file: %v", err)
	}
	x.kept.Put(x.key(f), made, int64(len(made.Bytes())))
	return nil
}

// indexing is what the planner's blocks need.
func (p *blockPlanner) indexing(epoch, block uint32) (*indexing, error) {
	text, err := spec.Marshal(p.program)
	if err != nil {
		return nil, fmt.Errorf("master: %w", err)
	}
	return &indexing{
		indexer: p.indexes, session: p.session, program: p.program, text: text,
		logger: p.logger.With("epoch", epoch, "block", block),
	}, nil
}
