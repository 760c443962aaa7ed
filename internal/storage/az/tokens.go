package az

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

const (
	// audience of the tokens, in all of Azure's clouds.
	audience = "https://storage.azure.com/.default"
	bearer   = "Bearer "
	// patience is the time that fetching a token may take.
	patience = 30 * time.Second
	// renewAgain is the pause after a renewal that failed, while the token before can be used.
	renewAgain = 5 * time.Second
)

// identity returns what makes credentials of the profile's identity.
func (p *Profile) identity(client *http.Client) func() (azcore.TokenCredential, error) {
	options := policy.ClientOptions{Transport: client}
	if p.source() == ManagedIdentity {
		return func() (azcore.TokenCredential, error) {
			o := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: options}
			if p.ClientID != "" {
				o.ID = azidentity.ClientID(p.ClientID)
			}
			return azidentity.NewManagedIdentityCredential(o)
		}
	}
	return func() (azcore.TokenCredential, error) {
		return azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{ClientOptions: options})
	}
}

// tokens signs with tokens of an identity. It keeps one, and renews it in the background while it can still be used.
type tokens struct {
	identity func() (azcore.TokenCredential, error)
	ctx      context.Context //nolint:containedctx // of those who fetch: a request may be given up that others wait for
	cancel   context.CancelFunc
	fetching sync.WaitGroup

	mu         sync.Mutex
	credential azcore.TokenCredential
	token      string
	due, ends  time.Time // when it is renewed, and can be used no more
	coming     *fetched  // nil: none is being fetched
	found      bool      // a token, once
}

// fetched is the outcome of fetching a token, once done is closed.
type fetched struct {
	done  chan struct{}
	token string
	err   error
}

func newTokens(identity func() (azcore.TokenCredential, error)) *tokens {
	t := &tokens{identity: identity}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	return t
}

func (t *tokens) close() {
	t.cancel()
	t.fetching.Wait()
}

func (t *tokens) sign(ctx context.Context, _ string, req *http.Request) error {
	token, err := t.get(ctx)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", bearer+token)
	return nil
}

// get returns a token that can be used.
func (t *tokens) get(ctx context.Context) (string, error) {
	t.mu.Lock()
	now := time.Now()
	if t.coming == nil && (!now.Before(t.due) || !now.Before(t.ends)) {
		t.start() //nolint:contextcheck // others wait for it, too
	}
	token, usable, coming := t.token, now.Before(t.ends), t.coming
	t.mu.Unlock()
	if usable {
		return token, nil
	}
	select {
	case <-coming.done:
		return coming.token, coming.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// start fetches a token. The caller holds mu.
func (t *tokens) start() {
	coming := &fetched{done: make(chan struct{})}
	t.coming = coming
	t.fetching.Go(func() {
		ctx, cancel := context.WithTimeout(t.ctx, patience)
		defer cancel()
		token, err := t.fetch(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		coming.token = token.Token
		t.keep(token, err)
		if err != nil {
			coming.err = t.failed(err)
		}
		t.coming = nil
		close(coming.done)
	})
}

// fetch is called by one goroutine at a time.
func (t *tokens) fetch(ctx context.Context) (azcore.AccessToken, error) {
	t.mu.Lock()
	credential := t.credential
	t.mu.Unlock()
	if credential == nil {
		var err error
		if credential, err = t.identity(); err != nil {
			return azcore.AccessToken{}, err
		}
		t.mu.Lock()
		t.credential = credential
		t.mu.Unlock()
	}
	return credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{audience}})
}

// keep takes a token, of which a fifth of its lifetime is left when it is renewed. The caller holds mu.
func (t *tokens) keep(token azcore.AccessToken, err error) {
	now := time.Now()
	if err != nil {
		if again := now.Add(renewAgain); again.Before(t.ends) {
			t.due = again
		}
		return
	}
	t.found = true
	t.token, t.ends, t.due = token.Token, token.ExpiresOn, token.RefreshOn
	if t.due.IsZero() {
		t.due = now.Add(token.ExpiresOn.Sub(now) / 5 * 4)
	}
}

// failed is the error of a token that could not be had, in one line. It is text alone: a file of the identity's that is
// missing is no file of the dataset that is gone. The caller holds mu.
func (t *tokens) failed(err error) error {
	words := slices.DeleteFunc(strings.Fields(err.Error()), func(w string) bool { return strings.Trim(w, "-") == "" })
	text := cut(strings.Join(words, " "), 1000)
	told := object.Ours(fmt.Errorf("no token of Azure's could be had; set up an identity (managed identity, workload "+
		"identity, AZURE_CLIENT_ID and so on, or az login), or use other credentials in the storage profile: %s", text))
	transient := t.found || errors.Is(err, context.DeadlineExceeded)
	if refused, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && refused.RawResponse != nil {
		status := refused.RawResponse.StatusCode
		transient = transient || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
	}
	if transient {
		return object.Transient(told)
	}
	return told
}

// forget has the next attempt fetch another token: the service does not take that of a request. One that was fetched
// since stays.
func (t *tokens) forget(refused *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if refused.Header.Get("Authorization") != bearer+t.token {
		return
	}
	t.due, t.ends, t.credential = time.Time{}, time.Time{}, nil
}

func (t *tokens) advice() string {
	return "the service does not take the identity's token; check that the account is of the identity's tenant"
}

func (t *tokens) hide(text string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == "" {
		return text
	}
	return strings.ReplaceAll(text, t.token, hidden)
}
