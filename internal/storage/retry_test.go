package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// scripted is a backend whose calls go as scripted.
type scripted struct {
	calls int
	times []time.Time
	read  func(ctx context.Context, call int) error
	list  func(q object.Query, call int, yield func(*pb.File) error) error
}

func (s *scripted) begin() int {
	s.calls++
	s.times = append(s.times, time.Now())
	return s.calls
}

func (s *scripted) Stat(ctx context.Context, uri string) (*pb.File, error) {
	return &pb.File{Uri: uri}, s.read(ctx, s.begin())
}

func (s *scripted) ReadAt(ctx context.Context, _ *pb.File, _ []byte, _ int64) error {
	return s.read(ctx, s.begin())
}

func (s *scripted) List(_ context.Context, q object.Query, yield func(*pb.File) error) error {
	return s.list(q, s.begin(), yield)
}

var errBusy = object.Transient(errors.New("busy"))

func defaults(t *testing.T) Retry {
	t.Helper()
	r, err := Retry{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRetry(t *testing.T) {
	final := errors.New("no such key")
	for name, tc := range map[string]struct {
		read  func(ctx context.Context, call int) error
		want  error
		calls int
	}{
		"succeeds": {func(context.Context, int) error { return nil }, nil, 1},
		"recovers": {func(_ context.Context, call int) error {
			if call < 4 {
				return errBusy
			}
			return nil
		}, nil, 4},
		"is final":          {func(context.Context, int) error { return final }, final, 1},
		"wrapped transient": {func(context.Context, int) error { return fmt.Errorf("x: %w", errBusy) }, errBusy, 6},
		"hangs":             {func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }, errAttempt, 6},
		"hangs once": {func(ctx context.Context, call int) error {
			if call == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{read: tc.read}
				err := retrying{s, defaults(t)}.ReadAt(t.Context(), &pb.File{}, nil, 0)
				if !errors.Is(err, tc.want) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
				if s.calls != tc.calls {
					t.Errorf("%d calls, want %d", s.calls, tc.calls)
				}
				if err != nil && IsTransient(err) != (s.calls > 1) {
					t.Errorf("after %d calls it is said to be transient: %v", s.calls, IsTransient(err))
				}
				if errors.Is(err, context.Canceled) {
					t.Errorf("nobody cancelled, but the error is %v", err)
				}
			})
		})
	}
}

func TestRetryDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := defaults(t)
		cfg.Attempts, cfg.MaxDelay = 9, 2*time.Second
		s := &scripted{read: func(context.Context, int) error { return errBusy }}
		if err := (retrying{s, cfg}).ReadAt(t.Context(), &pb.File{}, nil, 0); !errors.Is(err, errBusy) {
			t.Fatalf("error %v, want %v", err, errBusy)
		}
		want := cfg.Delay
		for i := 1; i < len(s.times); i++ {
			if d := s.times[i].Sub(s.times[i-1]); d < want/2 || d > want {
				t.Errorf("attempt %d came after %s, want %s to %s", i+1, d, want/2, want)
			}
			want = min(2*want, cfg.MaxDelay)
		}
	})
}

// TestRetryAfter: who is asked to wait does, but not for longer than an attempt may take.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := defaults(t)
		asked := []time.Duration{7 * time.Second, time.Hour, 0}
		s := &scripted{read: func(_ context.Context, call int) error {
			if call > len(asked) {
				return nil
			}
			return fmt.Errorf("x: %w", object.Later(errBusy, asked[call-1]))
		}}
		if err := (retrying{s, cfg}).ReadAt(t.Context(), &pb.File{}, nil, 0); err != nil {
			t.Fatal(err)
		}
		for i, want := range []time.Duration{7 * time.Second, cfg.AttemptTimeout, 0} {
			if d := s.times[i+1].Sub(s.times[i]); d < want || d > want+cfg.MaxDelay {
				t.Errorf("attempt %d came after %s, want %s", i+2, d, want)
			}
		}
	})
}

func TestRetryStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := defaults(t)
		cfg.Delay, cfg.MaxDelay = time.Hour, time.Hour
		s := &scripted{read: func(context.Context, int) error { return errBusy }}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() { done <- retrying{s, cfg}.ReadAt(ctx, &pb.File{}, nil, 0) }()
		synctest.Wait() // it pauses now
		start := time.Now()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("it stopped after %s", d)
		}
	})
}

// A listing that breaks goes on after what it has; one out of order begins again.
func TestRetryList(t *testing.T) {
	for name, tc := range map[string]struct {
		first []string
		after string
	}{
		"ordered":   {[]string{"a", "b", "c"}, "c"},
		"unordered": {[]string{"a", "c", "b"}, ""},
		"nothing":   {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{list: func(q object.Query, call int, yield func(*pb.File) error) error {
					files := tc.first
					if call == 2 {
						files = []string{"d"}
						if q.After != tc.after {
							t.Errorf("it goes on after %q, want %q", q.After, tc.after)
						}
					}
					for _, f := range files {
						if err := yield(&pb.File{Uri: f}); err != nil {
							return err
						}
					}
					if call == 1 {
						return errBusy
					}
					return nil
				}}
				var got []string
				err := retrying{s, defaults(t)}.List(t.Context(), object.Query{}, func(f *pb.File) error {
					got = append(got, f.Uri)
					return nil
				})
				if want := append(slices.Clone(tc.first), "d"); err != nil || !slices.Equal(got, want) {
					t.Errorf("listed %v, %v; want %v", got, err, want)
				}
			})
		})
	}
}

// A long listing has its attempts again once it got further; one that finds the same again, or only passes files over,
// has not.
func TestRetryListFurther(t *testing.T) {
	for name, tc := range map[string]struct {
		one  func(q object.Query, call int) string // of a call, which then fails
		want int                                   // calls in all, of at most 100
	}{
		"further": {func(_ object.Query, call int) string { return fmt.Sprintf("%03d", call) }, 100},
		"same":    {func(object.Query, int) string { return "a" }, 6},
		"passing": {func(q object.Query, _ int) string { q.Pass(); return "" }, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := defaults(t)
				s := &scripted{list: func(q object.Query, call int, yield func(*pb.File) error) error {
					if call == 100 {
						return nil
					}
					if uri := tc.one(q, call); uri != "" {
						if err := yield(&pb.File{Uri: uri}); err != nil {
							return err
						}
					}
					return errBusy
				}}
				err := retrying{s, cfg}.List(t.Context(), object.Query{}, func(*pb.File) error { return nil })
				if s.calls != tc.want || (err == nil) != (tc.want == 100) {
					t.Errorf("%d calls, error %v; want %d", s.calls, err, tc.want)
				}
				for i := 1; err == nil && i < len(s.times); i++ {
					if d := s.times[i].Sub(s.times[i-1]); d > cfg.Delay {
						t.Errorf("attempt %d came after %s", i+1, d)
					}
				}
			})
		})
	}
}

// A long listing is not cut off while files come, or are passed over.
func TestRetryListProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := defaults(t)
		s := &scripted{list: func(q object.Query, _ int, yield func(*pb.File) error) error {
			for i := range 10 {
				time.Sleep(cfg.AttemptTimeout * 3 / 4) // synctest's clock
				if i < 5 {
					q.Pass()
					continue
				}
				if err := yield(&pb.File{Uri: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			return nil
		}}
		err := retrying{s, cfg}.List(t.Context(), object.Query{}, func(*pb.File) error { return nil })
		if err != nil || s.calls != 1 {
			t.Errorf("%d calls, error %v; want one without error", s.calls, err)
		}
	})
}
