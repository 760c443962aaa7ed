package rpc

import (
	"crypto/subtle"
	"fmt"
	"io"
	"os"
	"strings"
)

// Secret is text that never prints: not by any verb of fmt, as a field of whatever struct, nor by slog or an encoder.
// The zero value is no secret.
type Secret struct {
	text *string // behind a pointer, since fmt prints the unexported fields of a struct without asking their methods
}

// NewSecret hides text; "" is no secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// ReadSecret reads a secret from a file, without the white space around it.
func ReadSecret(path string) (Secret, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, fmt.Errorf("rpc: read secret: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return Secret{}, fmt.Errorf("rpc: secret file %s is empty", path)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' }) {
		return Secret{}, fmt.Errorf("rpc: secret file %s: want one word of printable ASCII; it has other characters", path)
	}
	return NewSecret(text), nil
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// Reveal returns the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// equals compares with text in a time that depends on the lengths alone.
func (s Secret) equals(text string) bool {
	return subtle.ConstantTimeCompare([]byte(text), []byte(s.Reveal())) == 1
}

// String hides the secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return "(secret)"
}

// Format hides the secret from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText hides the secret from encoders, slog's among them.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
