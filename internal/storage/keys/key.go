package keys

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// Key is an AES key, ready for use. It never changes.
type Key struct {
	Block cipher.Block
	GCM   cipher.AEAD
}

// newKey returns the key of 16, 24 or 32 bytes.
func newKey(key []byte) (*Key, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("a key has %d bytes; want 16, 24 or 32", len(key))
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Key{block, gcm}, nil
}

// unwrap opens what the key encrypted as key management tools do: nonce, ciphertext and tag, bound to aad.
func (k *Key) unwrap(sealed, aad []byte) ([]byte, error) {
	n := k.GCM.NonceSize()
	if len(sealed) < n+k.GCM.Overhead() {
		return nil, fmt.Errorf("a wrapped key of %d bytes", len(sealed))
	}
	out, err := k.GCM.Open(nil, sealed[:n], sealed[n:], aad)
	if err != nil {
		return nil, errors.New("it does not unwrap: the master key is another one, or the key material is damaged")
	}
	return out, nil
}
