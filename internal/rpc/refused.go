package rpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ListTrailer is the trailer by which a worker tells the list of records by which it made an index, which is some other
// tool's word; without it the worker read the file.
const ListTrailer = "penstock-list-bin"

// Refused reports whether a worker's error will not go away by asking it again. PermissionDenied does: a worker that
// has just started learns the master's keys, and the next Sync brings a ticket that has not expired.
func Refused(err error) bool {
	switch status.Code(err) {
	case codes.DataLoss, codes.FailedPrecondition, // of the data
		// of this worker
		codes.InvalidArgument, codes.Unauthenticated, codes.Unimplemented, codes.OutOfRange, codes.Aborted:
		return true
	}
	return false
}
