package gs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"golang.org/x/sync/singleflight"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// scope is what tokens are good for: reading and writing objects, as far as the account may.
const scope = "https://www.googleapis.com/auth/devstorage.read_write"

const (
	// A token is fetched in the background when it is good for renewBefore only, and used until endsBefore its end.
	// Machines' own services do not give another one earlier than some four minutes before.
	renewBefore = 225 * time.Second
	endsBefore  = 10 * time.Second
	renewAgain  = 5 * time.Second // after the one before
	// fetchTimeout bounds how long a token is fetched.
	fetchTimeout = 30 * time.Second
)

// tokens fetches a profile's tokens and keeps the newest.
type tokens struct {
	fetch func(context.Context) (*oauth2.Token, error) // nil: none are needed

	ctx      context.Context //nolint:containedctx // of those who fetch: a request may be given up that others wait for
	cancel   context.CancelFunc
	fetching singleflight.Group
	mu       sync.Mutex
	newest   *token
	doubt    bool      // the one before was refused
	again    time.Time // when the next renewal may be tried
}

// token is what requests are signed with.
type token struct {
	*oauth2.Token
	fetched  time.Time
	replaces bool // one that was refused
}

// sign adds the token to a request; nil adds none.
func (t *token) sign(req *http.Request) {
	if t != nil {
		t.SetAuthHeader(req)
	}
}

// until is a time before the token's end. One without is taken for one of an hour.
func (t *token) until(before time.Duration) time.Time {
	if t.Expiry.IsZero() {
		return t.fetched.Add(time.Hour - before)
	}
	return t.Expiry.Add(-before)
}

func over(at time.Time) bool { return !time.Now().Before(at) }

// tokens returns the profile's.
func (p *Profile) tokens() *tokens {
	if p.source() == Anonymous {
		return newTokens(nil)
	}
	witness := newWitness()
	find := p.findDefault
	if p.source() == ServiceAccount {
		find = p.readKey
	}
	return newTokens(func(ctx context.Context) (*oauth2.Token, error) {
		defer witness.next.CloseIdleConnections() // they are rarely needed again in time
		fetched := &fetch{witness: witness}
		ctx = context.WithValue(ctx, oauth2.HTTPClient, fetched.client())
		// What says which account it is, is read each time: it may have been replaced.
		found, err := find(ctx)
		if err != nil {
			return nil, object.Ours(err)
		}
		t, err := found.TokenSource.Token()
		return t, fetched.classify(err)
	})
}

func newTokens(fetch func(context.Context) (*oauth2.Token, error)) *tokens {
	t := &tokens{fetch: fetch}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

var errClosed = errors.New("the storage is closed")

// close gives up what is being fetched, and waits for that.
func (t *tokens) close() {
	t.cancel()
	_, _, _ = t.fetching.Do("", func() (any, error) { return nil, errClosed }) // joins who fetches
}

// findDefault finds the application's default credentials. Errors are text: a file that is missing is none of the
// dataset's.
func (p *Profile) findDefault(ctx context.Context) (*google.Credentials, error) {
	found, err := google.FindDefaultCredentials(ctx, scope)
	if err != nil {
		return nil, fmt.Errorf("no Google credentials found; set GOOGLE_APPLICATION_CREDENTIALS, run where the "+
			"machine or the pod has an account, or use a profile with credentials: anonymous: %s",
			firstLine(err.Error()))
	}
	return found, nil
}

func (p *Profile) readKey(ctx context.Context) (*google.Credentials, error) {
	text, err := os.ReadFile(p.CredentialsFile)
	if err != nil {
		return nil, fmt.Errorf("the storage profile's credentials_file: %s", err) //nolint:errorlint // as above
	}
	found, err := google.CredentialsFromJSONWithType(ctx, text, google.ServiceAccount, scope)
	if err != nil { // which might repeat what the file holds
		return nil, fmt.Errorf("the storage profile's credentials_file %s is no key of a service account in JSON; "+
			"create one, or name another kind of file by GOOGLE_APPLICATION_CREDENTIALS", p.CredentialsFile)
	}
	return found, nil
}

// get returns a token that is good, or nil if none is needed.
func (t *tokens) get(ctx context.Context) (*token, error) {
	if t.fetch == nil {
		return nil, nil
	}
	if good := t.good(); good != nil {
		return good, nil
	}
	select {
	case got := <-t.fetching.DoChan("", t.renew):
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*token), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// good returns the newest token if it is good, and has it renewed in time.
func (t *tokens) good() *token {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.newest == nil || over(t.newest.until(endsBefore)) {
		return nil
	}
	if over(t.newest.until(renewBefore)) && over(t.again) {
		t.again = time.Now().Add(renewAgain)
		t.fetching.DoChan("", t.renew) // nobody waits
	}
	return t.newest
}

// renew fetches a token, in a time of its own.
func (t *tokens) renew() (any, error) {
	ctx, cancel := context.WithTimeout(t.ctx, fetchTimeout)
	defer cancel()
	fetched, err := t.fetch(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	t.newest, t.doubt = &token{fetched, time.Now(), t.doubt}, false
	return t.newest, nil
}

// refused takes note that the service refuses a token, and says what to do. Another one may help, unless it has been
// fetched for that very reason.
func (t *tokens) refused(by *token, r refusal) error {
	if by == nil {
		return fmt.Errorf("%w; use a storage profile with credentials: %w", object.ErrDenied, r)
	}
	t.mu.Lock()
	if t.newest == by {
		t.newest, t.doubt = nil, true
	}
	t.mu.Unlock()
	err := object.Ours(fmt.Errorf("%w; check the storage profile's credentials, which the service does not know: %w",
		object.ErrDenied, r))
	if by.replaces {
		return err
	}
	return object.Transient(err)
}
