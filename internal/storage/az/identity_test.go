package az

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// microsoft stands for the identity services, as their documentation says they answer, and for the account. Tokens are
// numbered, and last a minute.
type microsoft struct {
	t       *testing.T
	given   atomic.Int64
	client  string      // that a machine's identity is asked for by
	revoked bool        // the first token
	taken   chan string // the tokens that the account was shown
}

func (m *microsoft) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const login = "https://login.microsoftonline.com/tenant/"
	answer := func(format string, values ...any) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, format, values...)
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/discovery/instance"):
		answer(`{"tenant_discovery_endpoint": %q, "metadata": []}`, login+"v2.0/.well-known/openid-configuration")
	case strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration"):
		answer(`{"authorization_endpoint": %q, "token_endpoint": %q, "issuer": %q}`, login+"oauth2/v2.0/authorize",
			login+"oauth2/v2.0/token", login+"v2.0")
	case strings.HasSuffix(r.URL.Path, "/oauth2/v2.0/token"):
		if r.FormValue("client_assertion") != "the pod's token" || r.FormValue("client_id") != "client" ||
			!strings.Contains(r.FormValue("scope"), audience) {
			w.WriteHeader(http.StatusUnauthorized)
			answer(`{"error": "invalid_client", "error_description": "AADSTS700211: no such federated identity"}`)
			return
		}
		answer(`{"access_token": "token-%d", "expires_in": 60, "token_type": "Bearer"}`, m.given.Add(1))
	case r.URL.Path == "/metadata/identity/oauth2/token":
		if r.Header.Get("Metadata") != "true" || !strings.HasPrefix(audience, r.URL.Query().Get("resource")) ||
			r.URL.Query().Get("client_id") != m.client {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		answer(`{"access_token": "token-%d", "expires_in": "60", "expires_on": "%d", "resource": "r", "token_type": "Bearer"}`,
			m.given.Add(1), time.Now().Add(time.Minute).Unix())
	default:
		if r.Host != "account1.blob.core.windows.net" {
			m.t.Errorf("%s is asked for %s", r.Host, r.URL)
		}
		token := r.Header.Get("Authorization")
		m.taken <- token
		if m.revoked && token == "Bearer token-1" {
			w.Header().Set("X-Ms-Error-Code", "InvalidAuthenticationInfo")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("Content-Range", "bytes 0-0/1")
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "x")
	}
}

// Tokens come from the identity that the environment tells of, and are fetched again when they end.
func TestIdentities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("the pod's token"), 0o600); err != nil {
		t.Fatal(err)
	}
	workload := map[string]string{
		"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_FEDERATED_TOKEN_FILE": file,
	}
	stranger := map[string]string{
		"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "stranger", "AZURE_FEDERATED_TOKEN_FILE": file,
		"AZURE_TOKEN_CREDENTIALS": "WorkloadIdentityCredential",
	}
	for name, tc := range map[string]struct {
		profile     Profile
		environment map[string]string
		want        string // of the error; "" for none
		revoked     bool
	}{
		"workload identity": {environment: workload},
		"revoked":           {environment: workload, revoked: true},
		"machine's":         {},
		"managed identity":  {profile: Profile{Credentials: ManagedIdentity}},
		"user-assigned":     {profile: Profile{Credentials: ManagedIdentity, ClientID: "client"}},
		"refused":           {environment: stranger, want: "AADSTS700211"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{
				"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_USERNAME",
				"AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_AUTHORITY_HOST", "AZURE_TOKEN_CREDENTIALS", "IDENTITY_ENDPOINT",
				"IDENTITY_HEADER", "MSI_ENDPOINT", "IMDS_ENDPOINT",
			} {
				t.Setenv(variable, tc.environment[variable])
				if tc.environment[variable] == "" {
					os.Unsetenv(variable)
				}
			}
			m := &microsoft{t: t, revoked: tc.revoked, client: tc.profile.ClientID, taken: make(chan string, 2)}
			server := httptest.NewServer(m)
			t.Cleanup(server.Close)
			tc.profile.Account = "account1"
			c, err := New(&tc.profile)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			c.transport.Proxy = nil
			c.transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
			}
			c.transport.DialTLSContext = c.transport.DialContext
			f := &pb.File{Uri: "az://container/x", Size: 1, Etag: "e"}
			err = c.ReadAt(t.Context(), f, make([]byte, 1), 0)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) || !object.IsOurs(err) || object.IsTransient(err) ||
					strings.Contains(err.Error(), "the pod's token") {
					t.Errorf("error %v, want one with %q", err, tc.want)
				}
				return
			}
			if object.IsTransient(err) != tc.revoked || err != nil && !tc.revoked {
				t.Fatal(err)
			}
			if !tc.revoked {
				all := c.signer.(*tokens)
				all.mu.Lock()
				all.ends = time.Now() // as in a minute
				all.mu.Unlock()
			}
			if err := c.ReadAt(t.Context(), f, make([]byte, 1), 0); err != nil {
				t.Fatal(err)
			}
			if first, second := <-m.taken, <-m.taken; first != "Bearer token-1" || second != "Bearer token-2" {
				t.Errorf("the account was shown %q and %q", first, second)
			}
		})
	}
}
