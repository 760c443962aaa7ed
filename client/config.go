package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/wire"
)

// maxRestored bounds the checkpoints that one rank brings; the rest of the request has a few bytes.
const maxRestored = rpc.MaxRequest - 64<<10

// BatchMemory is what the arrays of a batch lie in, and later those of others.
type BatchMemory interface {
	// Take returns an array of bytes of any value, aligned to 64. An error ends the session.
	Take(bytes int) ([]byte, error)
	// Free gives all of them back. Release calls it for memory that is more than loops take that let go of each batch.
	Free()
}

// Config says which session to read and as whom. Masters and Session must be set.
type Config struct {
	// Masters are addresses of masters, any of which leads to the leader.
	Masters []string
	// Dial makes a connection to a master or a worker (TLS, token, keepalive, HTTP/2 windows). The bytes that lie in
	// HTTP/2 windows come on top of Budget. Secure sets it, and DialLink; if it is nil, both are as for a fleet without
	// tokens and TLS.
	Dial func(address string) (*grpc.ClientConn, error)
	// DialLink opens a connection to a worker (by TLS where Dial does, with NextProtos "h2") that carries batches
	// alone, without HTTP/2, which would take as much CPU time again as the batches do. If it is nil or fails, they
	// come by gRPC. The bytes that lie in the kernel's buffers of a link come on top of Budget.
	DialLink func(ctx context.Context, address string) (net.Conn, error)
	// Session is the session's id, made from the job (run id and loader name).
	Session string
	// Spec is what to read, or SpecText, as YAML or JSON, whose relative paths begin at WorkingDir. Neither attaches to
	// a session that was created before.
	Spec                 *pb.Spec
	SpecText, WorkingDir string
	// Code are the bytes of the functions that Spec.Code identifies. The session keeps those of whoever opens it.
	Code []byte
	// AcceptCodeChange has states be restored though the functions were others when they were taken.
	AcceptCodeChange bool
	// Rank of this trainer, below WorldSize. WorldSize 0 is 1.
	Rank, WorldSize uint32
	// Share is the session's part of the workers, set when it is opened for the first time. Nil is an equal one.
	Share *pb.Share
	// Zone, if set, is where this trainer runs: it reads from workers of the same zone as long as they can serve it.
	Zone string
	// Restore holds checkpoints of ranks, of this session or of another; each rank's belongs in exactly one Open of the
	// collective restore. A rank that takes part without bringing any gives an empty slice that is not nil. It waits
	// for one that brings a state to open the session, unless SavedLastBatch or SavedTable say what that reads.
	Restore []*pb.State
	// BeginsIn is the epoch that a restored training loop goes on in, where this rank brings no state that says so.
	BeginsIn uint32
	// SavedLastBatch is the ending of the session that is restored, where this rank brings no state that says so. It is
	// that of the session that is opened, if the spec names none.
	SavedLastBatch pb.LastBatch
	// SavedTable is dataset.uri of the session that is restored, if that is a table, with its version, where this rank
	// brings no state that says so. That version is read if the spec names none.
	SavedTable string
	// ConnectTimeout is how long Open waits for a master that answers, RestoreTimeout how long for the other ranks of a
	// restore. Zero is as long as its context allows.
	ConnectTimeout, RestoreTimeout time.Duration
	// Budget bounds, in bytes, the rows that were received and not yet copied into a batch (default 256 MiB). Each
	// stream has an equal share, but may always hold one message, even one larger than its share.
	Budget int64
	// Memory, if set, is asked for the memory of a batch, in place of Go's heap, from Next and Prepare. It is used
	// again for later batches until the session has ended, with its last epoch or by Close.
	Memory func() BatchMemory
	// Local, if set, serves the streams of workers that run in this process, without the network.
	Local Local
	// Compression is how workers compress batches on their way, for links that are slower than a core compresses. The
	// default is not at all.
	Compression pb.Compression
	// SyncEvery is the longest time between two Syncs (default 1 s).
	SyncEvery time.Duration
	// StreamTimeout is how long a worker may send nothing while there is room, before the stream moves on to the next
	// (default 1 min). It doubles with each fruitless round over the candidates in which one was silent, to 16 times as
	// much.
	StreamTimeout time.Duration
	// HedgeAfter is the least time that a worker may send nothing while there is room, before the next one is asked for
	// the same rows besides (default 500 ms). It is longer where streams usually are. Few streams are opened twice at
	// once.
	HedgeAfter time.Duration
	// JoinTimeout is how long Next waits, where all ranks make equally many steps, for ranks that do not join (default
	// 10 min). Then it returns an AbsentError.
	JoinTimeout time.Duration
	// OnResume is called, from a stream's goroutine, when a broken or late stream goes on. It must not block.
	OnResume func(Resume)
	// OnSkip is called, from the goroutine that talks to the master, when rows were left out because no worker can read
	// them, by whichever rank. It must not block.
	OnSkip func(Skipped)
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// Local is the workers of this process; worker.Local is one.
type Local interface {
	// Stream serves a request as the worker at an address would, if it is here: with the same statuses, or the
	// receiver's error.
	Stream(ctx context.Context, address string, r *pb.StreamRequest, to wire.Receiver) (here bool, err error)
	// KeepCode has the worker at an address keep a part of the session's code, if it is here.
	KeepCode(ctx context.Context, address string, part *pb.CodePart) (here bool, err error)
}

func (c Config) withDefaults() Config {
	if c.WorldSize == 0 {
		c.WorldSize = 1
	}
	if c.Dial == nil {
		c.dialBy(rpc.Config{})
	}
	if c.Budget == 0 {
		c.Budget = 256 << 20
	}
	if c.SyncEvery == 0 {
		c.SyncEvery = time.Second
	}
	if c.StreamTimeout == 0 {
		c.StreamTimeout = time.Minute
	}
	if c.HedgeAfter == 0 {
		c.HedgeAfter = 500 * time.Millisecond
	}
	if c.JoinTimeout == 0 {
		c.JoinTimeout = 10 * time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate returns all that is wrong with a config whose defaults were filled in.
func (c Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("client config: "+format, args...))
		}
	}
	check(len(c.Masters) > 0, "Masters is empty; give the address of at least one master")
	check(c.Spec == nil || c.SpecText == "", "Spec and SpecText both say what to read; set one of them")
	check(c.Session != "", "Session is empty; name it after the job, such as its run id and the loader's name")
	check(c.Rank < c.WorldSize, "Rank %d is not below WorldSize %d", c.Rank, c.WorldSize)
	check(c.Budget > 0, "Budget is %d bytes; it must be positive", c.Budget)
	check(pb.Compression_name[int32(c.Compression)] != "",
		"Compression is %d; it must be LZ4, ZSTD or 0", c.Compression)
	check(c.SyncEvery > 0, "SyncEvery is %v; it must be positive", c.SyncEvery)
	check(c.StreamTimeout > 0, "StreamTimeout is %v; it must be positive", c.StreamTimeout)
	if err := c.checkCode(); err != nil {
		errs = append(errs, err)
	}
	restored := 0
	for _, state := range c.Restore {
		restored += proto.Size(state)
	}
	check(restored <= maxRestored, "Restore has %d bytes; one rank may bring %d, so have each bring its own",
		restored, maxRestored)
	check(c.JoinTimeout > 0, "JoinTimeout is %v; it must be positive", c.JoinTimeout)
	check(c.HedgeAfter > 0, "HedgeAfter is %v; it must be positive", c.HedgeAfter)
	return errors.Join(errs...)
}
