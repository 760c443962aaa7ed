package gs

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/compute/metadata"
	"golang.org/x/oauth2"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// scripted gives tokens as scripted.
type scripted struct {
	calls int
	fetch func(call int) (*oauth2.Token, error)
}

func (s *scripted) tokens() *tokens {
	return newTokens(func(context.Context) (*oauth2.Token, error) {
		s.calls++
		return s.fetch(s.calls)
	})
}

func hour(n int) *oauth2.Token {
	return &oauth2.Token{AccessToken: strings.Repeat("t", n), Expiry: time.Now().Add(time.Hour)}
}

// Tokens are renewed before they end, and used to their end if that fails.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{fetch: func(call int) (*oauth2.Token, error) {
			if call == 2 || call == 3 {
				return nil, errors.New("gone")
			}
			return hour(call), nil
		}}
		tokens := s.tokens()
		defer tokens.close()
		for _, step := range []struct {
			after       time.Duration
			want, calls int
		}{
			{0, 1, 1},
			{55 * time.Minute, 1, 1},
			{2 * time.Minute, 1, 2}, // it fails
			{time.Second, 1, 2},
			{renewAgain, 1, 3}, // again
			{renewAgain, 1, 4},
			{0, 4, 4},
		} {
			time.Sleep(step.after)
			got, err := tokens.get(t.Context())
			if err != nil || len(got.AccessToken) != step.want {
				t.Errorf("%+v: token %v, %v", step, got, err)
			}
			synctest.Wait() // for a renewal in the background
			if s.calls != step.calls {
				t.Fatalf("%+v: %d calls", step, s.calls)
			}
		}
	})
}

// A fetch that hangs holds nobody longer than his own time, and is not begun again meanwhile.
func TestStuckFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := &scripted{fetch: func(int) (*oauth2.Token, error) { <-release; return hour(1), nil }}
		tokens := s.tokens()
		defer tokens.close()
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := tokens.get(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want that the time is over", err)
			}
			cancel()
		}
		close(release)
		synctest.Wait()
		if got, err := tokens.get(t.Context()); err != nil || s.calls != 1 {
			t.Errorf("token %v, %v, by %d calls", got, err, s.calls)
		}
	})
}

// Closing gives up a renewal in the background, and waits for its end.
func TestClosedWhileItRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		tokens := newTokens(func(ctx context.Context) (*oauth2.Token, error) {
			<-ctx.Done()
			time.Sleep(time.Second) // what was asked takes its time to end
			ended = true
			return nil, ctx.Err()
		})
		tokens.newest = &token{hour(1), time.Now(), false}
		time.Sleep(58 * time.Minute)
		if got, err := tokens.get(t.Context()); err != nil || got != tokens.newest {
			t.Errorf("token %v, %v", got, err)
		}
		synctest.Wait()
		if tokens.close(); !ended {
			t.Error("it does not wait")
		}
		time.Sleep(time.Hour)
		if got, err := tokens.get(t.Context()); err == nil {
			t.Errorf("closed, it gives %v", got)
		}
	})
}

// A machine's own service may be busy, or not be up yet; that it has no account stays so.
func TestMachineFails(t *testing.T) {
	for err, passes := range map[error]bool{
		&metadata.Error{Code: http.StatusServiceUnavailable}: true,
		&net.OpError{Op: "dial", Err: errors.New("refused")}: true,
		&metadata.Error{Code: http.StatusForbidden}:          false,
		metadata.NotDefinedError("instance/token"):           false,
	} {
		said := new(fetch).classify(err)
		if object.IsTransient(said) != passes || !object.IsOurs(said) {
			t.Errorf("%v: %v, transient: %v", err, said, object.IsTransient(said))
		}
	}
}
