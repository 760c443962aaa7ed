package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// Errors that end a session, to be told apart with errors.Is.
var (
	// ErrClosed is returned by Next after Close.
	ErrClosed = errors.New("client: the session was closed")
	// ErrFenced means that another process joined as this rank, or that the master took the rank for dead. Batches
	// that were handed over before it count as consumed only as far as a Sync had said so.
	ErrFenced = errors.New("client: fenced")
	// ErrData means that data cannot be read by any worker, or changed since they were listed.
	ErrData = errors.New("client: bad data")
	// ErrNoWorker means that what answers at the workers' addresses is no worker.
	ErrNoWorker = errors.New("client: what answers is no Penstock worker, or one of another release; " +
		"see the worker's --advertise")
)

var errAbandoned = errors.New("client: the session was abandoned")

// ErrEpochEnd is returned by NextOfEpoch, and ends nothing but an epoch.
var ErrEpochEnd = errors.New("client: the epoch has ended")

// MasterError is a master's answer to a call. It shows the master's words without gRPC's frame around them; the status
// is underneath.
type MasterError struct {
	Op, Address string
	Err         error
}

func (e *MasterError) Error() string {
	st := status.Convert(e.Err)
	return fmt.Sprintf("%s at master %s: %s (%s)%s", e.Op, e.Address, st.Message(), st.Code(), rpc.NextStep(e.Err))
}

func (e *MasterError) Unwrap() error { return e.Err }

// Masters are what masters said, one for each that was asked, if that is what an error is of.
func Masters(err error) (said []*MasterError) {
	switch e := err.(type) { //nolint:errorlint // all that are in it are looked at
	case *MasterError:
		return []*MasterError{e}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			said = append(said, Masters(part)...)
		}
	case interface{ Unwrap() error }:
		return Masters(e.Unwrap())
	}
	return said
}

// NoHandshake reports whether all masters that were asked take connections, but no TLS handshake of this client's.
func NoHandshake(err error) bool {
	said := Masters(err)
	return len(said) > 0 && !slices.ContainsFunc(said, func(e *MasterError) bool {
		return !strings.Contains(e.Error(), "authentication handshake failed") // gRPC has no other sign of it
	})
}

// CannotYet reports whether the leader answered, and could not do what it was asked for since others, such as storage,
// fail for now.
func CannotYet(err error) bool {
	return slices.ContainsFunc(Masters(err), func(e *MasterError) bool { return rpc.CannotYet(e.Err) })
}

// MissingError says which ranks have not joined a collective restore. Without ranks it is that none has come which
// brings a state.
type MissingError struct {
	Ranks  []uint32
	Waited time.Duration
	err    error // of the context, if that ended it
}

func (e *MissingError) Error() string {
	if len(e.Ranks) == 0 {
		return fmt.Sprintf("restore: no rank that brings a state has opened the session for %v; give each state to "+
			"one rank, or set SavedTable and SavedLastBatch to the state's on ranks without one",
			e.Waited.Round(time.Second))
	}
	return fmt.Sprintf("restore: ranks %d have not joined for %v; each rank must restore",
		e.Ranks, e.Waited.Round(time.Second))
}

func (e *MissingError) Unwrap() error { return e.err }

// RestoreError is a master's refusal of the states that a rank brings to a session of a spec.
type RestoreError struct {
	Spec *pb.Spec
	Err  error
}

func (e *RestoreError) Error() string { return e.Err.Error() }

func (e *RestoreError) Unwrap() error { return e.Err }

// FailedError is the end of a session that the master gave up.
type FailedError struct {
	Session, Words string
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("client: session %q failed: %s", e.Session, e.Words)
}

// AbsentError is the end of a session of which some ranks do not join, and this one waits for them.
type AbsentError struct {
	Session string
	Ranks   []uint32 // that have not joined
	World   uint32
	Waited  time.Duration
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("client: session %q: %s", e.Session, e.Words())
}

// Words is the error without the session's name.
func (e *AbsentError) Words() string {
	return fmt.Sprintf("next has waited for %v for %s of %d, which did not join. All ranks make equally many steps "+
		"of an epoch with last_batch pad or drop, and in order deterministic. Start each rank, or let a rank that "+
		"reads alone open with world_size=1",
		e.Waited.Round(time.Second), rankNames(e.Ranks), e.World)
}

// maxNamed bounds the ranks that a message names.
const maxNamed = 8

// rankNames names some ranks, and counts the others.
func rankNames(ranks []uint32) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	named := ranks[:min(len(ranks), maxNamed)]
	out := "ranks " + strings.Trim(fmt.Sprint(named), "[]")
	if others := len(ranks) - len(named); others > 0 {
		out += fmt.Sprintf(" and %d more", others)
	}
	return out
}

// RefusedError is the end of a session of which every worker refuses a shard. Err is one's word for it, at the address.
type RefusedError struct {
	Session string
	Shard   position.Position
	File    string
	Address string
	Err     error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("client: session %q: shard %v: every worker refuses it: %v", e.Session, e.Shard, e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// workerError shows a worker's words without gRPC's frame around them; the status is underneath.
type workerError struct {
	name, address string
	err           error
}

func (e *workerError) Error() string {
	if st, ok := status.FromError(e.err); ok {
		return fmt.Sprintf("%s (%s)", e.words(), st.Code())
	}
	return e.words()
}

// words is the error without its status's code. It is text, whatever bytes the worker sent: masters are sent it.
func (e *workerError) words() string {
	words := e.err.Error()
	if st, ok := status.FromError(e.err); ok {
		words = st.Message()
	}
	return strings.ToValidUTF8(fmt.Sprintf("worker %s at %s: %s", e.name, e.address, words), "\uFFFD")
}

func (e *workerError) Unwrap() error { return e.err }

// fencedOr marks the errors that mean that this incarnation was fenced.
func fencedOr(err error) error {
	if status.Code(err) == codes.Aborted {
		return errors.Join(ErrFenced, err)
	}
	return err
}
