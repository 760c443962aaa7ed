package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Outcomes, to be told apart with errors.Is. Anything else that a write returns is an error that etcd named
// (no permission): nothing was written.
var (
	// ErrNotLeader: nothing was written; another master leads, or none.
	ErrNotLeader = errors.New("store: this master does not lead (any more)")
	// ErrConflict: nothing was written, for a key is not as it was last read. Load the session again.
	ErrConflict = errors.New("store: the session was changed by somebody else; load it again")
	// ErrUnknown: it may or may not have been written. Load the session before anything else is decided.
	ErrUnknown = errors.New("store: etcd did not say whether it wrote; load the session again")
	// ErrStale: nothing was written, for an earlier write ended in ErrConflict or ErrUnknown. Load first.
	ErrStale = errors.New("store: the session must be loaded again before the next write")
	// ErrFull comes beside ErrUnknown: etcd says so, too, of the write that filled it, which lies there.
	ErrFull = errors.New(
		"etcd's database is full (NOSPACE) and takes no writes: compact and defragment it, or start it with a larger " +
			"--quota-backend-bytes, then run `etcdctl alarm disarm`; nothing is lost, and all goes on by itself")
	// ErrUnavailable: etcd could not be read.
	ErrUnavailable = errors.New("store: etcd is unavailable")
	// ErrNotFound: there is no such session.
	ErrNotFound = errors.New("store: no such session")
	// ErrExists: there is a session of that id.
	ErrExists = errors.New("store: the session exists")
	// ErrTooLarge: nothing was written, for it would not fit into one transaction.
	ErrTooLarge = errors.New("store: too large for one transaction")
	// ErrNoCode: a session's code does not lie in etcd, or not all of it.
	ErrNoCode = errors.New("store: no such code")
	// ErrCodeFull: nothing was written, for a namespace has as much code as it may.
	ErrCodeFull = errors.New("store: no room for the code")
	// ErrCodeHash: the parts of code are not those of its hash, and were deleted.
	ErrCodeHash = errors.New("store: the code's bytes do not have its SHA-256; send them again")
	// ErrNoLeader: no master leads now.
	ErrNoLeader = errors.New("store: no master leads")
	// ErrCorrupt: what lies in etcd was not written by this version of Penstock.
	ErrCorrupt = errors.New("store: unreadable state in etcd")
)

// readError wraps what a request without effects returned.
func readError(op string, err error) error {
	if errors.Is(err, rpctypes.ErrNoSpace) { // as the grant of a lease is answered
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, ErrFull)
	}
	if refused(err) {
		return fmt.Errorf("store: %s: %w", op, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, err)
}

// writeError wraps what a request with effects returned: without an answer that names a reason to refuse it,
// it may have been applied, or still be.
func writeError(op string, err error) error {
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return fmt.Errorf("store: %s: %w (%w)", op, ErrFull, ErrUnknown)
	}
	if refused(err) {
		return fmt.Errorf("store: %s: %w", op, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrUnknown, op, err)
}

// refused reports whether err is etcd's refusal of a request, before it took effect.
func refused(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	var named rpctypes.EtcdError
	code := status.Code(err)
	if errors.As(err, &named) {
		code = named.Code()
	}
	switch code {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied, codes.Unauthenticated,
		codes.ResourceExhausted, codes.NotFound, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}
