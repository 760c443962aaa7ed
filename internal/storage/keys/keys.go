// Package keys finds the keys of encrypted Parquet files by the key metadata in them. Package storage holds a Ring for
// each profile that has a source of keys (docs/how-to/encrypted-files.md); formats/parquet asks it. Neither keys nor
// tokens are in errors, logs or the output of fmt. A Ring may be used by many goroutines at once.
package keys

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/penstock-ml/penstock/internal/storage/object"
)

// Config says where the keys of a profile's files come from: a file or a Vault. It holds no secrets.
type Config struct {
	// File holds keys in base64 by their names (YAML or JSON), for files that name their keys and for key material
	// that was wrapped with one of these as the master key.
	File string `yaml:"file"`
	// Vault unwraps key material with its transit engine.
	Vault *Vault `yaml:"vault"`
	// AADPrefix is what files are bound to; one that has another prefix is refused.
	AADPrefix string `yaml:"aad_prefix"`
}

// source is where master keys are.
type source interface {
	// named returns the key of that name.
	named(name string) ([]byte, error)
	// unwrap opens what was wrapped with the master key of that name.
	unwrap(ctx context.Context, master, wrapped string) ([]byte, error)
}

// Ring finds keys. A nil Ring has none.
type Ring struct {
	source source
	prefix string

	mu    sync.Mutex
	known map[string]*Key // by key metadata, or by a wrapped key and its master's name
}

// maxKnown bounds the keys that a Ring remembers.
const maxKnown = 1 << 14

// maxMetadata bounds the key metadata that is looked at.
const maxMetadata = 64 << 10

// Unnamed is the name of the key of files that name none.
const Unnamed = "default"

// New returns the ring that cfg describes. It reads and connects to nothing until a key is asked for.
func New(cfg Config) (*Ring, error) {
	r := &Ring{prefix: cfg.AADPrefix, known: map[string]*Key{}}
	switch {
	case cfg.File != "" && cfg.Vault != nil:
		return nil, errors.New("keys come from a file or from a vault, not from both: leave one out")
	case cfg.File != "":
		r.source = keyFile{cfg.File}
	case cfg.Vault != nil:
		v, err := newVault(*cfg.Vault)
		if err != nil {
			return nil, fmt.Errorf("vault: %w", err)
		}
		r.source = v
	default:
		return nil, errors.New("want file or vault")
	}
	return r, nil
}

// Close closes idle connections.
func (r *Ring) Close() {
	if v, ok := r.source.(*vault); ok {
		v.client.CloseIdleConnections()
	}
}

// AADPrefix is what files are bound to by configuration; "" if by nothing.
func (r *Ring) AADPrefix() string {
	if r == nil {
		return ""
	}
	return r.prefix
}

var errNone = errors.New("this process has no keys for the storage profile: name a source of keys in --storage-config")

// Key returns the key that metadata stands for: its name, or key material of Parquet's key management tools. A
// failure is marked as storage.IsTransient or storage.IsOurs.
func (r *Ring) Key(ctx context.Context, metadata []byte) (*Key, error) {
	if r == nil {
		return nil, object.Ours(errNone)
	}
	k, err := r.find(string(metadata), func() ([]byte, error) { return r.open(ctx, metadata) })
	if err != nil && !object.IsTransient(err) && ctx.Err() == nil {
		err = object.Ours(err)
	}
	return k, err
}

// find returns a known key, or makes it one.
func (r *Ring) find(as string, open func() ([]byte, error)) (*Key, error) {
	r.mu.Lock()
	k := r.known[as]
	r.mu.Unlock()
	if k != nil {
		return k, nil
	}
	b, err := open()
	if err != nil {
		return nil, err
	}
	if k, err = newKey(b); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[as] = k
	return k, nil
}

// open finds the key that metadata stands for.
func (r *Ring) open(ctx context.Context, metadata []byte) ([]byte, error) {
	if len(metadata) > maxMetadata {
		return nil, fmt.Errorf("key metadata of %d bytes", len(metadata))
	}
	m, isMaterial, err := parseMaterial(metadata)
	switch {
	case err != nil:
		return nil, err
	case !isMaterial && len(metadata) == 0:
		return r.source.named(Unnamed)
	case !isMaterial:
		return r.source.named(string(metadata))
	}
	if !m.Double {
		return r.source.unwrap(ctx, m.Master, m.DEK)
	}
	kek, err := r.find("kek\x00"+m.Master+"\x00"+m.WrappedKEK,
		func() ([]byte, error) { return r.source.unwrap(ctx, m.Master, m.WrappedKEK) })
	if err != nil {
		return nil, fmt.Errorf("key encryption key: %w", err)
	}
	return unwrapLocally(kek, m.DEK, m.kekID)
}

// material is a data key, wrapped by a master key directly or (Double) by a key encryption key that a master key wraps.
type material struct {
	Type       string `json:"keyMaterialType"`
	Internal   bool   `json:"internalStorage"`
	Master     string `json:"masterKeyID"`
	DEK        string `json:"wrappedDEK"`
	Double     bool   `json:"doubleWrapping"`
	KEK        string `json:"keyEncryptionKeyID"`
	WrappedKEK string `json:"wrappedKEK"`

	kekID []byte
}

// parseMaterial reads key metadata, which may be a name instead.
func parseMaterial(metadata []byte) (m material, isMaterial bool, err error) {
	if !strings.HasPrefix(strings.TrimSpace(string(metadata)), "{") || json.Unmarshal(metadata, &m) != nil ||
		m.Type == "" {
		return m, false, nil //nolint:nilerr // a name that looks like JSON
	}
	switch {
	case m.Type != "PKMT1":
		return m, true, fmt.Errorf("key material of type %q; PKMT1 can be read", m.Type)
	case !m.Internal:
		return m, true, errors.New("its key material lies in a file of its own: write it with internal_key_material")
	case m.Master == "" || m.DEK == "" || m.Double && m.WrappedKEK == "":
		return m, true, errors.New("its key material is not complete: the file is damaged")
	}
	if m.kekID, err = base64.StdEncoding.DecodeString(m.KEK); err != nil {
		return m, true, errors.New("the id of its key encryption key is not base64: the file is damaged")
	}
	return m, true, nil
}

// unwrapLocally opens a key that another one wrapped.
func unwrapLocally(k *Key, wrapped string, aad []byte) ([]byte, error) {
	sealed, err := base64.StdEncoding.DecodeString(wrapped)
	if err != nil {
		return nil, errors.New("a wrapped key is not base64")
	}
	return k.unwrap(sealed, aad)
}
