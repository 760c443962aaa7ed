package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v15/arrow/ipc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// drive is the driver of package client.
func drive(in io.Reader, out io.Writer) (exit int) {
	d := &goDriver{}
	commands, replies := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var c Command
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		r, err := d.obey(c)
		if err != nil {
			r = Reply{Error: &Error{Kind: kind(c.Do, err), Message: err.Error()}}
		}
		if err := replies.Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// goDriver has at most one session.
type goDriver struct {
	session *client.Session
	timeout time.Duration
	batches []*client.Batch // released, but good for StateAfter
	skipped atomic.Int64
}

func (d *goDriver) obey(c Command) (Reply, error) {
	if c.Do == "open" {
		d.session = nil
		return Reply{}, d.open(c.Open)
	}
	if d.session == nil { // the open failed
		if c.Do == "close" {
			return Reply{}, nil
		}
		return Reply{}, errors.New("no session is open")
	}
	switch c.Do {
	case "next":
		return d.next()
	case "leave":
		return Reply{}, d.session.LeaveEpoch(c.Epoch)
	case "state":
		st := d.session.State()
		if c.After > 0 {
			st = d.session.StateAfter(d.batches[c.After-1])
		}
		b, err := proto.Marshal(st)
		return Reply{State: b}, err
	case "stats":
		s := d.session.Stats()
		return Reply{Stats: &Stats{
			Rows: s.Rows, Batches: s.Batches, Dropped: s.Dropped, Failovers: s.Failovers, Hedges: s.Hedges,
			Skipped:  d.skipped.Load(),
			Buffered: s.Buffered, PeakBuffered: s.PeakBuffered,
			Stall: s.Stall.Seconds(), Compute: s.Compute.Seconds(),
		}}, nil
	case "close":
		return Reply{}, d.session.Close()
	}
	return Reply{}, fmt.Errorf("no command %q", c.Do)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (d *goDriver) open(c *Config) error {
	cfg := client.Config{
		Masters: c.Masters, Session: c.Session, Spec: new(pb.Spec), Rank: c.Rank, WorldSize: c.World, Budget: c.Budget,
		SyncEvery: seconds(c.SyncEvery), StreamTimeout: seconds(c.StreamTimeout), HedgeAfter: seconds(c.HedgeAfter),
		Dial: func(address string) (*grpc.ClientConn, error) {
			return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		},
		DialLink: rpc.LinkDialer(rpc.Config{}),
		OnSkip:   func(client.Skipped) { d.skipped.Add(1) },
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if err := protojson.Unmarshal(c.Spec, cfg.Spec); err != nil {
		return err
	}
	if c.Restore != nil {
		cfg.Restore = []*pb.State{}
	}
	for _, b := range c.Restore {
		st := new(pb.State)
		if err := proto.Unmarshal(b, st); err != nil {
			return err
		}
		cfg.Restore = append(cfg.Restore, st)
	}
	d.skipped.Store(0)
	// The context bounds the session's life too.
	ctx, cancel := context.WithCancelCause(context.Background())
	late := time.AfterFunc(seconds(c.ConnectTimeout), func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()
	s, err := client.Open(ctx, cfg)
	if err != nil {
		return err
	}
	d.session, d.timeout, d.batches = s, seconds(c.Timeout), nil
	return nil
}

func (d *goDriver) next() (Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
	defer cancel()
	b, err := d.session.Next(ctx)
	if errors.Is(err, io.EOF) {
		return Reply{End: true}, nil
	}
	if err != nil {
		return Reply{}, err
	}
	d.batches = append(d.batches, b)
	r := Reply{Epoch: b.Epoch, Valid: b.Valid}
	if at := b.Checkpoint; at != nil {
		r.Checkpoint = &Checkpoint{Name: at.Name, Step: at.Step}
	}
	rec := b.Record()
	var stream bytes.Buffer
	out := ipc.NewWriter(&stream, ipc.WithSchema(rec.Schema()))
	if err := errors.Join(out.Write(rec), out.Close()); err != nil {
		return Reply{}, err
	}
	rec.Release()
	b.Release()
	r.Rows = stream.Bytes()
	return r, nil
}

// kind is an error's name in the driver's protocol.
func kind(do string, err error) string {
	switch {
	case errors.Is(err, client.ErrFenced):
		return "fenced"
	case errors.Is(err, client.ErrClosed):
		return "closed"
	case errors.Is(err, context.DeadlineExceeded) && do == "next":
		return "workers"
	case errors.Is(err, client.ErrNoWorker):
		return "workers"
	case errors.Is(err, client.ErrData), strings.Contains(err.Error(), "every worker refuses it"):
		return "data"
	case strings.Contains(err.Error(), "failed: "):
		return "failed"
	}
	switch status.Code(err) {
	case codes.InvalidArgument:
		return "spec"
	case codes.AlreadyExists:
		return "mismatch"
	case codes.FailedPrecondition:
		return "restore"
	case codes.PermissionDenied, codes.Unauthenticated:
		return "permission"
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return "master"
	}
	return "other"
}
