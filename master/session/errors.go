package session

import (
	"errors"
	"fmt"
)

// Errors of Apply, to be told apart with errors.Is.
var (
	// ErrFenced: the caller is not the present start of its rank, and must stop. It is a *FencedError.
	ErrFenced = errors.New("fenced")
	// ErrInvalid: the command contradicts the state or itself. Calling again does not help.
	ErrInvalid = errors.New("invalid")
	// ErrRestore: the restore is refused.
	ErrRestore = errors.New("restore refused")
	// ErrCheckpoint: a checkpoint cannot be taken.
	ErrCheckpoint = errors.New("checkpoint")
	// ErrCheckpointExists: there is a checkpoint of that name.
	ErrCheckpointExists = errors.New("the checkpoint exists")
	// ErrNoCheckpoint: there is none of that name.
	ErrNoCheckpoint = errors.New("no such checkpoint")
	// ErrFailed: the session has failed.
	ErrFailed = errors.New("the session has failed")
)

// FencedError names what took the caller's place.
type FencedError struct {
	Rank uint32
	// Generation and Incarnation are the present ones; Incarnation is 0 if the rank has not joined since a restore.
	Generation, Incarnation uint64
	// Expired is set if the caller's lease ended and others were granted what it consumed since.
	Expired bool
	// From is the named checkpoint that the session was put back to.
	From RestoredFrom
}

func (e *FencedError) Error() string {
	if e.Expired {
		return fmt.Sprintf(
			"rank %d is fenced: its lease ended, and other ranks were granted rows that it handed over since; start "+
				"it anew", e.Rank)
	}
	if e.From.Name != "" {
		return fmt.Sprintf(
			"rank %d is fenced: the session was put back to checkpoint %q, of step %d; load the model saved there "+
				"and start it anew", e.Rank, e.From.Name, e.From.Step)
	}
	return fmt.Sprintf(
		"rank %d is fenced by generation %d, incarnation %d: another start of it has joined, or the session was "+
			"restored or opened anew",
		e.Rank, e.Generation, e.Incarnation)
}

// Is makes errors.Is(err, ErrFenced) hold.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

func unchecked(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCheckpoint, fmt.Errorf(format, args...))
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRestore, fmt.Errorf(format, args...))
}

func failed(reason string) error {
	return fmt.Errorf("%w: %s; restore a checkpoint, or delete the session and open it again", ErrFailed, reason)
}
