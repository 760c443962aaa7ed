package rpc

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/penstock-ml/penstock/internal/reload"
)

// Secret is text that never prints: not by any verb of fmt, as a field of whatever struct, nor by slog or an encoder.
// One that was read from a file follows it. While it is being replaced there are several: the first is shown, each is
// taken. The zero value is no secret.
type Secret struct {
	// behind a pointer, since fmt prints the unexported fields of a struct without asking their methods
	all *func() []string
}

// NewSecret hides text; "" is no secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	all := func() []string { return []string{text} }
	return Secret{&all}
}

// ReadSecret reads a secret from a file, without the white space around it. A file with several lines is that of a
// secret which is being replaced: each line is one. That it cannot be read anew is told by slog.Default.
func ReadSecret(path string) (Secret, error) {
	file, err := reload.Open(path, func(text []byte) ([]string, error) {
		lines, err := parseSecret(string(text))
		if err != nil {
			return nil, fmt.Errorf("rpc: secret file %s %w", path, err)
		}
		return lines, nil
	}, func(err error) { slog.Error("a secret cannot be read anew", "error", err) })
	if err != nil {
		return Secret{}, fmt.Errorf("rpc: read secret: %w", err)
	}
	all := file.Get
	return Secret{&all}, nil
}

func parseSecret(text string) ([]string, error) {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil, errors.New("is empty")
	}
	for _, line := range lines {
		if strings.ContainsFunc(line, func(r rune) bool { return r < '!' || r > '~' }) {
			return nil, errors.New(
				"has other characters than printable ASCII; want one word, and one more on a line of its own while " +
					"it is being replaced")
		}
	}
	return lines, nil
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.all == nil }

// All returns the texts that are taken, the one to be shown first.
func (s Secret) All() []string {
	if s.all == nil {
		return nil
	}
	return (*s.all)()
}

// Reveal returns the text to be shown.
func (s Secret) Reveal() string {
	if all := s.All(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Takes compares with a text that somebody shows, in a time that depends on the lengths alone.
func (s Secret) Takes(text string) bool {
	equal := 0
	for _, own := range s.All() {
		equal |= subtle.ConstantTimeCompare([]byte(text), []byte(own))
	}
	return equal == 1
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
