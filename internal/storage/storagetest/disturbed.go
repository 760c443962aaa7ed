package storagetest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Disturbed is a service that is asked too much, and whose answers are cut: of what is asked in the same words, the
// first time is refused by 503, the second by 429, both with Retry-After, the third is answered by half of the body,
// and the fourth as next does. A store whose retries are more than three passes the suite before it.
func Disturbed(next http.Handler) http.Handler {
	var mu sync.Mutex
	asked := make(map[string]int)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		words := fmt.Sprint(r.Method, r.URL, r.Header["Range"], r.Header["If-Match"], sha256.Sum256(body))
		mu.Lock()
		n := asked[words]
		asked[words] = (n + 1) % 4
		mu.Unlock()
		switch {
		case n < 2:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader([]int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[n])
		case n == 2 && r.Method != http.MethodHead:
			next.ServeHTTP(&cut{ResponseWriter: w}, r)
			panic(http.ErrAbortHandler)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// cut passes on half of what is written.
type cut struct{ http.ResponseWriter }

func (c *cut) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	return len(p), nil
}

// Tokens lets in who has the token of the moment, as a bearer, and refuses others by 401.
type Tokens struct {
	mu    sync.Mutex
	valid string
}

// Renew makes a token the valid one.
func (k *Tokens) Renew(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.valid = token
}

// Guard is next for who has the token.
func (k *Tokens) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		k.mu.Lock()
		ok := token == k.valid
		k.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
