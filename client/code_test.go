package client

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
	"github.com/penstock-ml/penstock/internal/wire"
)

func identity() *pb.Code { return &pb.Code{Digest: bytes.Repeat([]byte{1}, 32), Python: "3.12"} }

// withCode is a session's configuration whose functions are made of bytes, of one value.
func withCode(fl *fake.Net, value byte, size int) Config {
	cfg := config(fl, "m")
	cfg.Spec.Code, cfg.Code = identity(), bytes.Repeat([]byte{value}, size)
	return cfg
}

const threeParts = 2*code.PartBytes + 5

// twoWorkers are a master that has four streams opened at once, and workers that lack all code.
func twoWorkers(fl *fake.Net) (*fake.Master, *fake.Worker, *fake.Worker) {
	first, second := &fake.Worker{}, &fake.Worker{Cut: 3}
	m := simple(fl, 16, first)
	second.Data = m.Data
	fl.Worker("w2", second)
	m.Workers, m.Streams, m.Run = fl.Workers("w1", "w2"), 4, 4
	m.Spec.Code = identity()
	return m, first, second
}

func readAll(t *testing.T, m *fake.Master, s *Session) {
	t.Helper()
	ids, _, err := drain(s)
	if err != nil {
		t.Fatal(err)
	}
	exactlyOnce(t, m.Data, ids)
	checkMaster(t, m)
}

// TestCodeIsSentOnce holds that a master is sent what a session is made of, and a worker once for all of its streams,
// and that this is no failure of a stream.
func TestCodeIsSentOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m, first, second := twoWorkers(fl)
		first.TakeCode = func(context.Context, *pb.CodePart) error { // all streams have asked by its end
			time.Sleep(10 * time.Second)
			return nil
		}
		cfg := withCode(fl, 7, threeParts)
		cfg.OnResume = func(r Resume) { t.Errorf("a stream failed: %v", r.Cause) }
		s := open(t, cfg)
		if n := m.Codes.Parts(); n != 3 {
			t.Errorf("the master was sent %d parts, want 3", n)
		}
		if got := s.State().GetCode(); !proto.Equal(got, identity()) {
			t.Errorf("the state is of the code %v", got)
		}
		readAll(t, m, s)
		if n := first.Codes.Parts(); n != 3 {
			t.Errorf("the worker was sent %d parts, want 3", n)
		}
		if st := s.Stats(); second.Codes.Parts() != 0 || st.Failovers != 0 || st.Hedges != 0 {
			t.Errorf("the other worker was sent %d parts; %d failovers, %d hedges", second.Codes.Parts(), st.Failovers,
				st.Hedges)
		}
	})
}

// TestFailingOverWithCodeNeedsNoMaster holds that a worker which lacks the code gets it from the trainer, and goes on at
// the row, while no master is there.
func TestFailingOverWithCodeNeedsNoMaster(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m, first, second := twoWorkers(fl)
		first.Fault = func(_ context.Context, r *fake.Record) error {
			if r.K > 0 {
				return status.Error(codes.Unavailable, "it dies")
			}
			return nil
		}
		s := open(t, withCode(fl, 7, threeParts))
		m.Intercept = func(req proto.Message) error {
			if sync, ok := req.(*pb.SyncRequest); ok && len(sync.GetConsumed()) == 0 && second.Codes.Parts() == 0 {
				return nil // until it has granted
			}
			if second.Codes.Parts() < 3 {
				return status.Error(codes.Unavailable, "away")
			}
			return nil
		}
		readAll(t, m, s)
		if n := second.Codes.Parts(); n != 3 || s.Stats().Failovers == 0 {
			t.Errorf("the second worker was sent %d parts, after %d failovers", n, s.Stats().Failovers)
		}
	})
}

// TestTheSessionsBytesAreTaken holds that ranks with other bytes, or none, send workers those of whoever opened the
// session.
func TestTheSessionsBytesAreTaken(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m, first, _ := twoWorkers(fl)
		m.World = 3
		opener := withCode(fl, 7, threeParts)
		opener.WorldSize = 3
		one := open(t, opener)
		other := withCode(fl, 8, 100)
		other.Rank, other.WorldSize = 1, 3
		two := open(t, other)
		none := config(fl, "m")
		none.Rank, none.WorldSize, none.Spec = 2, 3, nil
		three := open(t, none)
		for i, s := range []*Session{one, two, three} {
			if got := s.terms.code; !bytes.Equal(got.data, opener.Code) ||
				!bytes.Equal(got.stored.GetSha256(), m.Code.GetSha256()) {
				t.Errorf("rank %d has %d bytes of code", i, len(got.data))
			}
		}
		check := func(s *Session) {
			if _, err := s.Next(t.Context()); err != nil {
				t.Error(err)
			}
		}
		check(three)
		first.Codes.Forget() // as one that was started again
		check(two)
	})
}

// TestASessionOfOtherBytesByNow holds that a rank which was away while another brought other bytes of the same functions
// gets those, once for all of its streams, and sends workers them.
func TestASessionOfOtherBytesByNow(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m, first, _ := twoWorkers(fl)
		m.Workers = fl.Workers("w1")
		other := bytes.Repeat([]byte{8}, threeParts)
		var got int
		m.Intercept = func(req proto.Message) error {
			switch req.(type) {
			case *pb.SyncRequest:
				if now := code.Of(other, identity()); !proto.Equal(m.Code, now) {
					for p := range code.Parts(now, other) {
						if err := m.Codes.Put(p); err != nil {
							t.Error(err)
						}
					}
					m.Code = now
				}
			case *pb.GetCodeRequest:
				if got++; got == 2 {
					return status.Error(codes.Unavailable, "away")
				}
			}
			return nil
		}
		s := open(t, withCode(fl, 7, 100))
		readAll(t, m, s)
		if got != 3+1 || first.Codes.Parts() != 3 || !bytes.Equal(s.fetcher.courier.code.data, other) {
			t.Errorf("the master was asked for %d parts, and the worker sent %d", got, first.Codes.Parts())
		}
	})
}

// TestAMasterThatForgets holds that parts are sent again to a master that lost some, or fails for a while, and when a
// session is joined whose bytes are gone.
func TestAMasterThatForgets(t *testing.T) {
	for name, forget := range map[string]func(m *fake.Master){
		"one is away": func(m *fake.Master) {
			failed := false
			m.Intercept = func(req proto.Message) error {
				if p, ok := req.(*pb.CodePart); ok && p.GetOffset() > 0 && !failed {
					failed = true
					return status.Error(codes.Unavailable, "away")
				}
				return nil
			}
		},
		"another knows nothing": func(m *fake.Master) {
			forgot := false
			m.Intercept = func(req proto.Message) error {
				if p, ok := req.(*pb.CodePart); ok && p.GetOffset() > code.PartBytes && !forgot {
					forgot = true
					m.Codes.Forget()
				}
				return nil
			}
		},
		"before the join": func(m *fake.Master) {
			forgot := false
			m.Intercept = func(req proto.Message) error {
				if _, ok := req.(*pb.JoinRequest); ok && !forgot {
					forgot = true
					m.Codes.Forget()
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *fake.Net) {
				m, _, _ := twoWorkers(fl)
				forget(m)
				readAll(t, m, open(t, withCode(fl, 7, threeParts)))
			})
		})
	}
}

func TestAMasterThatGoesOnAsking(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m, _, _ := twoWorkers(fl)
		cfg := withCode(fl, 7, 100)
		m.Intercept = func(req proto.Message) error {
			if open, ok := req.(*pb.OpenRequest); ok {
				return code.Needed(open.GetCode().GetSha256(), "need it")
			}
			return nil
		}
		_, err := Open(t.Context(), cfg)
		if code.Need(err) == nil || m.Codes.Parts() != codeTries {
			t.Errorf("%v after %d parts", err, m.Codes.Parts())
		}
	})
}

// TestAWorkerThatDoesNotTakeCode holds that a session ends for the workers' own reasons, and not those of data, if none
// of them takes the code, and goes on with one that does.
func TestAWorkerThatDoesNotTakeCode(t *testing.T) {
	for name, c := range map[string]struct {
		take  func(context.Context, *pb.CodePart) error
		fault func(context.Context, *fake.Record) error
		says  string
	}{
		"refuses": {
			take: func(context.Context, *pb.CodePart) error {
				return status.Error(codes.FailedPrecondition, "it is not its hash")
			},
			says: "does not take the session's code: it is not its hash",
		},
		"may not": {
			take: func(context.Context, *pb.CodePart) error {
				return status.Error(codes.Unimplemented, "this worker cannot run the session's Python functions: none")
			},
			says: "cannot run the session's Python functions",
		},
		"asks again": {
			fault: func(context.Context, *fake.Record) error {
				return code.Needed(code.Of(bytes.Repeat([]byte{7}, 100), nil).GetSha256(), "need it")
			},
			says: "asks for the session's code again",
		},
		"asks for another": {
			fault: func(context.Context, *fake.Record) error { return code.Needed(make([]byte, 32), "need it") },
			says:  "which is not the session's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *fake.Net) {
				m, first, second := twoWorkers(fl)
				first.TakeCode, first.Fault = c.take, c.fault
				m.Workers = fl.Workers("w1")
				_, err := open(t, withCode(fl, 7, 100)).Next(t.Context())
				if _, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(err.Error(), c.says) || errors.Is(err, ErrData) || errors.Is(err, ErrNoWorker) {
					t.Errorf("Next: %v", err)
				}
				m.Workers = fl.Workers("w1", "w2")
				again := withCode(fl, 7, 100)
				again.Session = "run-2"
				readAll(t, m, open(t, again))
				if second.Codes.Parts() == 0 {
					t.Error("the other worker was not asked")
				}
			})
		})
	}
}

// TestAWorkerThatHangsWithCode holds that a stream goes on elsewhere when a worker does not take the code in time, which
// is longer than one may be silent, since it may come slowly.
func TestAWorkerThatHangsWithCode(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m, first, second := twoWorkers(fl)
		first.TakeCode = func(ctx context.Context, _ *pb.CodePart) error {
			<-ctx.Done()
			return ctx.Err()
		}
		cfg := withCode(fl, 7, 100)
		cfg.StreamTimeout = time.Second
		begin := time.Now()
		s := open(t, cfg)
		if _, err := s.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < partTimeout || second.Codes.Parts() != 1 || m.Code == nil {
			t.Errorf("the first rows came after %v, and the second worker was sent %d parts", took, second.Codes.Parts())
		}
	})
}

// here is a worker of this process, which streams by the network once it has code.
type here struct {
	*fake.Worker
	mu   sync.Mutex
	kept []byte
	sum  []byte
}

func (h *here) Stream(context.Context, string, *pb.StreamRequest, wire.Receiver) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) == threeParts {
		return false, nil
	}
	return true, code.Needed(h.sum, "need it")
}

func (h *here) KeepCode(_ context.Context, _ string, p *pb.CodePart) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p.GetData()...)
	return true, h.Codes.Put(p)
}

func TestWorkersOfThisProcessAreSentCode(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		m, first, _ := twoWorkers(fl)
		m.Workers = fl.Workers("w1")
		cfg := withCode(fl, 7, threeParts)
		h := &here{Worker: first, sum: bundleOf(&cfg).stored.GetSha256()}
		cfg.Local = h
		readAll(t, m, open(t, cfg))
		if !bytes.Equal(h.kept, cfg.Code) {
			t.Errorf("%d bytes were kept", len(h.kept))
		}
	})
}

// TestADeliveryThatStops holds that another stream sends the code if the one stops that began to, and that none sends
// it which asked before it came.
func TestADeliveryThatStops(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		w := &fake.Worker{TakeCode: func(context.Context, *pb.CodePart) error {
			time.Sleep(time.Second)
			return nil
		}}
		fl.Worker("w1", w)
		cfg := withCode(fl, 7, threeParts).withDefaults()
		terms := &terms{cfg: cfg, log: cfg.Logger, code: bundleOf(&cfg)}
		workers := newPool(cfg.Dial, nil)
		defer workers.close()
		c := newCourier(terms, workers)
		raw, err := proto.Marshal(&pb.Ticket{Code: terms.code.stored})
		if err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		deliver := func(ctx context.Context) error {
			return c.deliver(ctx, "w1", &pb.SignedTicket{Ticket: raw}, asked)
		}
		var group sync.WaitGroup
		defer group.Wait()
		first, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		group.Go(func() {
			if err := deliver(first); err == nil {
				t.Error("what was stopped came")
			}
		})
		time.Sleep(time.Millisecond)
		if err := deliver(t.Context()); err != nil {
			t.Errorf("the second: %v", err)
		}
		sent := w.Codes.Parts()
		if err := deliver(t.Context()); err != nil || w.Codes.Parts() != sent {
			t.Errorf("one that asked before: %v, and %d parts more", err, w.Codes.Parts()-sent)
		}
		c.forget(nil)
		if len(c.came) > 0 || len(c.under) > 0 {
			t.Errorf("%v and %v are remembered", c.came, c.under)
		}
	})
}

func TestCodeThatCannotBe(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"no Spec with the Code": func(c *Config) { c.Spec.Code = nil },
		"has 16777217 bytes":    func(c *Config) { c.Code = make([]byte, code.MaxBytes+1) },
		"digest of 0 bytes":     func(c *Config) { c.Spec.Code.Digest = nil },
	} {
		cfg := withCode(fake.InMemory(t), 1, 10)
		change(&cfg)
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
