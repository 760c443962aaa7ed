package master

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// What only this process's configuration can mend is an answer for good: who hears that a master is unavailable looks
// for another one, and takes it for unreachable.
func TestOpenError(t *testing.T) {
	expired := errors.New("renew the storage profile's credentials: expired")
	for name, tc := range map[string]struct {
		err  error
		want codes.Code
	}{
		"expired":          {storage.Ours(expired), codes.FailedPrecondition},
		"expired, renewed": {object.Transient(storage.Ours(expired)), codes.FailedPrecondition},
		"busy":             {object.Transient(errors.New("SlowDown")), codes.Unavailable},
		"spec":             {spec.Problems{{Path: "x", Message: "y"}}, codes.InvalidArgument},
		"damaged":          {&unreadableError{errors.New("byte 7 is damaged")}, codes.DataLoss},
		"other":            {errors.New("no footer"), codes.FailedPrecondition},
	} {
		if got := status.Code(openError(tc.err)); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
		if yet := rpc.CannotYet(openError(tc.err)); yet != (tc.want == codes.Unavailable) {
			t.Errorf("%s: that it cannot yet: %v", name, yet)
		}
	}
}
