package az

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// service gives tokens, each of an hour, as answer says.
type service struct {
	asked  int
	answer func(ctx context.Context, asked int) error
}

func (s *service) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	s.asked++
	if err := s.answer(ctx, s.asked); err != nil {
		return azcore.AccessToken{}, err
	}
	return azcore.AccessToken{Token: fmt.Sprint("token ", s.asked), ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func tokensOf(t *testing.T, answer func(ctx context.Context, asked int) error) (*tokens, func(want string)) {
	s := &service{answer: answer}
	all := newTokens(func() (azcore.TokenCredential, error) { return s, nil })
	return all, func(want string) {
		t.Helper()
		if got, err := all.get(t.Context()); got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
}

// A token is renewed in the background while it lasts, also if the first attempts fail; a request never waits then.
func TestTokenIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		all, want := tokensOf(t, func(ctx context.Context, _ int) error {
			if down.Load() { // it does not answer
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		})
		defer all.close()
		want("token 1")
		time.Sleep(47 * time.Minute)
		want("token 1")
		down.Store(true)
		time.Sleep(2 * time.Minute)
		began := time.Now()
		want("token 1") // and is renewed
		if !time.Now().Equal(began) {
			t.Error("a request waited for a token that was not needed yet")
		}
		time.Sleep(patience + time.Second)
		down.Store(false)
		time.Sleep(renewAgain)
		want("token 1")
		synctest.Wait()
		want("token 3")
	})
}

// Whoever waits for a token may give up, and others get it; a service that does not answer is waited for so long.
func TestTokenIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, want := tokensOf(t, func(ctx context.Context, asked int) error {
			if asked == 1 {
				time.Sleep(10 * time.Second)
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		defer all.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := all.get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		want("token 1")
		all.forget(signed(t, all))
		began := time.Now()
		if _, err := all.get(t.Context()); !object.IsTransient(err) || time.Since(began) != patience {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// signed is a request with the token of now.
func signed(t *testing.T, all *tokens) *http.Request {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	if err := all.sign(t.Context(), "", req); err != nil {
		t.Error(err)
	}
	return req
}

// Of requests that went with one token, the first that is refused has another one be fetched, and the others do not.
func TestRefusedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, want := tokensOf(t, func(context.Context, int) error { return nil })
		defer all.close()
		sent := signed(t, all)
		for range 3 {
			all.forget(sent)
			want("token 2")
		}
	})
}

// Without an identity there is an error at once, which is none of the dataset's files.
func TestNoIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := tokensOf(t, func(context.Context, int) error {
			return fmt.Errorf("no credential:\n\tenvironment: %w\n%s", fs.ErrNotExist, strings.Repeat("x", 5000))
		})
		defer all.close()
		_, err := all.get(t.Context())
		if err == nil || object.IsTransient(err) || !object.IsOurs(err) || errors.Is(err, fs.ErrNotExist) ||
			!strings.Contains(err.Error(), "az login") || strings.Contains(err.Error(), "\n") || len(err.Error()) > 1500 {
			t.Errorf("error %v", err)
		}
	})
}
