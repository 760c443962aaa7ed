package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// keysEvery is how often the keys of gossip are looked at.
const keysEvery = time.Second

// gossipKeys are of a length that memberlist takes, whatever the secret's. The first encrypts.
func gossipKeys(secret rpc.Secret) [][]byte {
	var keys [][]byte
	for _, text := range secret.All() {
		key := sha256.Sum256([]byte("penstock gossip\x00" + text))
		keys = append(keys, key[:])
	}
	return keys
}

// followKeys keeps the keyring as the secret is.
func (f *Fleet) followKeys(ctx context.Context) {
	ticker := time.NewTicker(keysEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := f.changeKeys(gossipKeys(f.cfg.Secret))
		if err != nil {
			f.cfg.Logger.Error("cannot change the keys of gossip", "error", err)
		} else if changed {
			f.cfg.Logger.Info("the keys of gossip have changed", "keys", len(f.keyring.GetKeys()))
		}
	}
}

// changeKeys makes the keyring have keys, of which the first encrypts.
func (f *Fleet) changeKeys(keys [][]byte) (changed bool, err error) {
	has := func(list [][]byte, key []byte) bool {
		return slices.ContainsFunc(list, func(k []byte) bool { return bytes.Equal(k, key) })
	}
	old := f.keyring.GetKeys()
	if len(old) == len(keys) && bytes.Equal(old[0], keys[0]) &&
		!slices.ContainsFunc(keys, func(k []byte) bool { return !has(old, k) }) {
		return false, nil
	}
	for _, key := range keys {
		if err := f.keyring.AddKey(key); err != nil {
			return true, fmt.Errorf("fleet: add a key: %w", err)
		}
	}
	if err := f.keyring.UseKey(keys[0]); err != nil {
		return true, fmt.Errorf("fleet: use a key: %w", err)
	}
	for _, key := range old {
		if has(keys, key) {
			continue
		}
		if err := f.keyring.RemoveKey(key); err != nil {
			return true, fmt.Errorf("fleet: remove a key: %w", err)
		}
	}
	return true, nil
}
