package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

const (
	// loginLife is for how long a browser is known that logged in.
	loginLife = 12 * time.Hour
	// maxSealed bounds a cookie's value: browsers drop larger ones.
	maxSealed = 3800
	sealInfo  = "penstock: a browser's login"
)

// Seal makes of a token what a browser keeps: text that ends after loginLife, of which only who has the same secret can
// tell the token. So the token itself stays secret, and whether it still opens anything is asked anew with each
// request, of whichever process.
type Seal struct{ secrets func() [][]byte }

// NewSeal returns a seal of a process's own: logins end with the process.
func NewSeal() *Seal {
	secret := make([]byte, sha256.Size)
	_, _ = rand.Read(secret) // never fails
	return SealWith(func() [][]byte { return [][]byte{secret} })
}

// SealWith returns the seal of all processes that have the same secrets: the first seals, each opens.
func SealWith(secrets func() [][]byte) *Seal { return &Seal{secrets} }

func sealer(secret []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, sealInfo, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// close returns what a browser may keep.
func (s *Seal) close(token string, now time.Time) (string, error) {
	aead, err := sealer(s.secrets()[0])
	if err != nil {
		return "", err
	}
	plain := append(binary.BigEndian.AppendUint64(nil, uint64(now.Add(loginLife).Unix())), token...)
	sealed := base64.RawURLEncoding.EncodeToString(aead.Seal(nil, nil, plain, []byte(sealInfo))) //nolint:gosec // it makes the nonce
	if len(sealed) > maxSealed {
		return "", errors.New(
			"the token is too long for a browser to keep; show a shorter one, such as one of --tokens")
	}
	return sealed, nil
}

// open returns the token, "" if nobody sealed it or it has ended.
func (s *Seal) open(sealed string, now time.Time) string {
	if s == nil || len(sealed) > maxSealed {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return ""
	}
	for _, secret := range s.secrets() {
		aead, err := sealer(secret)
		if err != nil {
			return ""
		}
		plain, err := aead.Open(nil, nil, raw, []byte(sealInfo))
		if err == nil && len(plain) > 8 && now.Unix() < int64(binary.BigEndian.Uint64(plain)) {
			return string(plain[8:])
		}
	}
	return ""
}
