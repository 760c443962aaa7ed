package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
)

// Leader is the leader's address in the answer of a master that does not lead, or "".
func Leader(err error) string {
	for _, d := range status.Convert(err).Details() {
		if n, ok := d.(*pb.NotLeader); ok {
			return n.GetLeader()
		}
	}
	return ""
}

// CannotYet reports whether an answer is the leader's, for whom others, such as storage, fail for now.
func CannotYet(err error) bool {
	return slices.ContainsFunc(status.Convert(err).Details(), func(d any) bool {
		_, ok := d.(*pb.CannotYet)
		return ok
	})
}

// ErrUnavailable is of an AtLeader that no leader answered, or none in time.
var ErrUnavailable = errors.New("no master answers that leads")

// unavailable has the words of each master that was asked.
type unavailable struct{ error }

func (u unavailable) Unwrap() error   { return u.error }
func (unavailable) Is(err error) bool { return err == ErrUnavailable } //nolint:errorlint // that is how Is is written

// AtLeader calls f once with a connection to the leader, for commands that make one call: it tries each address, and
// whom a master names before the others. Any answer but Unavailable, in time, is the leader's. The error names each
// master that was asked, and has its words without gRPC's frame around them, and what to do.
func AtLeader(
	ctx context.Context, addresses []string, cfg Config, f func(context.Context, pb.MasterClient) error,
) error {
	if len(addresses) == 0 {
		return errors.New("--master names no address")
	}
	var errs []error
	asked := map[string]bool{}
	for todo := slices.Clone(addresses); len(todo) > 0; {
		address := todo[0]
		todo = todo[1:]
		if asked[address] {
			continue
		}
		asked[address] = true
		err := at(ctx, address, cfg, f)
		late := status.Code(err) == codes.DeadlineExceeded && ctx.Err() != nil
		if status.Code(err) != codes.Unavailable && !late || NotMaster(err) != "" {
			return plain(err, address)
		}
		errs = append(errs, plain(err, address))
		if leader := Leader(err); leader != "" {
			todo = append([]string{leader}, todo...)
		}
	}
	return unavailable{fmt.Errorf("%w; see why with `penstock doctor --master %s`",
		errors.Join(errs...), strings.Join(addresses, ","))}
}

func at(ctx context.Context, address string, cfg Config, f func(context.Context, pb.MasterClient) error) error {
	conn, err := Dial(address, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(ctx, pb.NewMasterClient(conn))
}

// StartMaster is what to do where nothing listens at a master's address.
const StartMaster = "start a master, or name the address of one that runs (on 127.0.0.1 only, unless its --listen " +
	"says otherwise)"

// nameMaster is what to do about a port that is no master's.
const nameMaster = ": name a master's --listen address, whose port is 7070 by default"

// NotMaster says what a port is that answered a master's call with err, and what to do, after a semicolon; "" where it
// may be a master's.
func NotMaster(err error) string {
	words := status.Convert(err).Message()
	switch {
	case status.Code(err) == codes.Unimplemented && strings.Contains(words, "unknown service"):
		return "; this is no master's port, but a worker's or another server's" + nameMaster
	case strings.Contains(words, "looked like an HTTP/1.1 header"):
		return "; this port speaks HTTP, as a dashboard's does" + nameMaster
	}
	return ""
}

// NextStep is what to do about a call to a master that failed with err, after a semicolon; "" where that is not known.
func NextStep(err error) string {
	words := status.Convert(err).Message()
	says := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(words, part) })
	}
	const closes = "; this port closes the connection, as gossip's does" + nameMaster
	switch closed := says("EOF", syscall.ECONNRESET.Error(), syscall.EPIPE.Error()); {
	case says(syscall.ECONNREFUSED.Error()):
		return "; nothing listens there: " + StartMaster
	case closed && says("authentication handshake failed"):
		return closes
	case closed && says("error reading server preface", "write client preface", "write initial settings", "write tcp"):
		return closes + ". Or it asks for TLS: set --tls-ca, or --tls. Or it asks for a certificate: set --tls-cert"
	}
	return NotMaster(err)
}

// plain is an error without gRPC's frame.
func plain(err error, address string) error {
	if s, ok := status.FromError(err); ok && err != nil {
		return fmt.Errorf("master %s: %s%s", address, s.Message(), NextStep(err))
	}
	return err
}
