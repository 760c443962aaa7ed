package keys

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
)

// keyFile is a file with keys. It is read anew for each key that is not known yet, so that keys may be added.
type keyFile struct{ path string }

func (f keyFile) named(name string) ([]byte, error) {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	var all map[string]string
	// The parser's message would show what surrounds the mistake.
	if err := yaml.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("keys: %s is not a map of names to keys in base64", f.path)
	}
	text, ok := all[name]
	if !ok {
		return nil, fmt.Errorf("keys: %s has no key %q: add it there", f.path, name)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("keys: key %q in %s is not base64", name, f.path)
	}
	return key, nil
}

// unwrap opens what a key management client wrapped without a service: base64 of nonce, ciphertext and tag with the
// master key's name as AAD, or that inside of the JSON of a LocalWrapKmsClient.
func (f keyFile) unwrap(_ context.Context, master, wrapped string) ([]byte, error) {
	b, err := f.named(master)
	if err != nil {
		return nil, err
	}
	k, err := newKey(b)
	if err != nil {
		return nil, fmt.Errorf("keys: master key %q in %s: %w", master, f.path, err)
	}
	var local struct {
		Key string `json:"encryptedKey"`
	}
	if json.Unmarshal([]byte(wrapped), &local) == nil && local.Key != "" {
		wrapped = local.Key
	}
	key, err := unwrapLocally(k, wrapped, []byte(master))
	if err != nil {
		return nil, fmt.Errorf("keys: master key %q in %s: %w", master, f.path, err)
	}
	return key, nil
}
