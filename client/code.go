package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// codeTries is how often a master is sent all parts of what it goes on asking for.
	codeTries = 3
	// partTimeout bounds the call that sends or gets one part.
	partTimeout = 30 * time.Second
)

// bundle is what the functions of a session are made of: those of whoever opened it, for all of its ranks. The zero
// value is that of a session without functions.
type bundle struct {
	stored *pb.StoredCode
	data   []byte
}

// bundleOf is what a rank brings.
func bundleOf(cfg *Config) bundle {
	if len(cfg.Code) == 0 {
		return bundle{}
	}
	return bundle{code.Of(cfg.Code, cfg.Spec.GetCode()), cfg.Code}
}

// checkCode refuses code that cannot be that of the spec.
func (c *Config) checkCode() error {
	switch of := bundleOf(c); {
	case of.stored == nil:
		return nil
	case of.stored.GetIdentity() == nil:
		return errors.New("client config: Code is given, and no Spec with the Code that identifies it; set both")
	default:
		if err := code.Check(of.stored); err != nil {
			return fmt.Errorf("client config: %w", err)
		}
	}
	return nil
}

// persist makes a call as masters' persist does, and again when the master that asks for this rank's code has it.
func (o opening) persist(
	ctx context.Context, op string, patient trials, warn func(error), f func(context.Context, pb.MasterClient) error,
) error {
	for sent := 0; ; sent++ {
		err := o.masters.persist(ctx, op, patient, warn, f)
		sum := code.Need(err)
		if sum == nil || sent == codeTries || !bytes.Equal(sum, o.own.stored.GetSha256()) {
			return err
		}
		if err := o.putCode(ctx, patient, warn); err != nil && code.Need(err) == nil {
			return err
		}
	}
}

// putCode sends all parts of this rank's code. A master that lacks those before one asks for the code anew.
func (o opening) putCode(ctx context.Context, patient trials, warn func(error)) error {
	patient.each = partTimeout
	for part := range code.Parts(o.own.stored, o.own.data) {
		err := o.masters.persist(ctx, "put code", patient, warn, func(ctx context.Context, m pb.MasterClient) error {
			_, err := m.PutCode(ctx, part)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// takeCode has the bytes of the session's code, which are others than this rank's if another one opened it.
func (o opening) takeCode(ctx context.Context, patient trials, warn func(error)) error {
	t := o.terms
	of := t.session.GetCode()
	switch {
	case of == nil:
		return nil
	case bytes.Equal(of.GetSha256(), o.own.stored.GetSha256()):
		t.code = o.own
		return nil
	}
	var err error
	t.code, err = o.getCode(ctx, patient, warn, of)
	return err
}

// getCode gets the bytes of the session's code.
func (o opening) getCode(
	ctx context.Context, patient trials, warn func(error), of *pb.StoredCode,
) (bundle, error) {
	if err := code.Check(of); err != nil {
		return bundle{}, fmt.Errorf("the master's session: %w", err)
	}
	patient.each = partTimeout
	data := make([]byte, 0, of.GetSize())
	for int64(len(data)) < of.GetSize() {
		part, err := o.getPart(ctx, patient, warn, of, int64(len(data)))
		if err != nil {
			return bundle{}, fmt.Errorf("the session's code: %w", err)
		}
		data = append(data, part.GetData()...)
	}
	return bundle{of, data}, code.CheckWhole(of, data)
}

// getPart gets the part at an offset.
func (o opening) getPart(
	ctx context.Context, patient trials, warn func(error), of *pb.StoredCode, offset int64,
) (part *pb.CodePart, err error) {
	req := &pb.GetCodeRequest{Session: o.terms.cfg.Session, Offset: offset}
	err = o.masters.persist(ctx, "get code", patient, warn, func(ctx context.Context, m pb.MasterClient) (err error) {
		part, err = m.GetCode(ctx, req)
		return err
	})
	if err == nil {
		err = code.CheckPart(part)
	}
	if err == nil && (part.GetOffset() != offset || part.GetSize() != of.GetSize()) {
		err = fmt.Errorf("a part at %d of %d bytes came for that at %d of %d", part.GetOffset(), part.GetSize(),
			offset, of.GetSize())
	}
	return part, err
}

// getWithCode is get from a worker that may lack the session's code: it is sent that once.
func (in *incoming) getWithCode(address string) error {
	asked := time.Now()
	err := in.get(address)
	sum := code.Need(err)
	if sum == nil || in.opened {
		return err
	}
	if err := in.sendCode(address, sum, asked); err != nil {
		return err
	}
	if err = in.get(address); code.Need(err) == nil {
		return err
	}
	return status.Error(codes.Aborted, "asks for the session's code again, which was sent to it; see its log")
}

// sendCode sends a worker the session's code. Meanwhile it is neither silent nor late.
func (in *incoming) sendCode(address string, sum []byte, asked time.Time) error {
	st := in.st
	st.shared.mu.Lock()
	ticket := st.at.ticket
	st.shared.mu.Unlock()
	if !bytes.Equal(sum, codeOf(ticket).GetSha256()) {
		return status.Errorf(codes.Aborted, "asks for code %x, which is not the session's", sum)
	}
	in.silence.Stop()
	in.waits(time.Time{})
	err := st.fetcher.courier.deliver(in.ctx, address, ticket, asked)
	in.waits(time.Now())
	in.silence.Reset(in.patience)
	return err
}

// codeOf is the code that a ticket names.
func codeOf(ticket *pb.SignedTicket) *pb.StoredCode {
	t := new(pb.Ticket)
	if proto.Unmarshal(ticket.GetTicket(), t) != nil {
		return nil // a grant's can be read
	}
	return t.GetCode()
}

// waits notes since when the attempt waits for a message; zero: it does not.
func (in *incoming) waits(since time.Time) {
	in.st.shared.mu.Lock()
	defer in.st.shared.mu.Unlock()
	in.a.waits = since
}
