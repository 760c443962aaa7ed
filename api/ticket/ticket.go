// Package ticket signs and verifies the tickets that let a trainer open a shard's stream on a worker. The
// master signs with an Ed25519 key; workers hold the public keys. See docs/internals/tickets.md for the format. A
// Signer and a Verifier may be used by many goroutines at once.
package ticket

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// Errors of Verify, to be told apart with errors.Is.
var (
	ErrUnknownKey = errors.New("ticket: signed with a key that this worker does not know")
	ErrSignature  = errors.New("ticket: the signature does not match")
	ErrExpired    = errors.New("ticket: expired; the trainer gets a new one with its next Sync")
	ErrProgram    = errors.New("ticket: was granted for another program")
)

// Signer signs tickets.
type Signer struct{ keys func() []ed25519.PrivateKey }

// NewSigner returns a signer with one key.
func NewSigner(key ed25519.PrivateKey) *Signer {
	return RotatingSigner(func() []ed25519.PrivateKey { return []ed25519.PrivateKey{key} })
}

// RotatingSigner returns a signer with the keys of the moment, at least one: the first signs, and tickets of all of
// them are good.
func RotatingSigner(keys func() []ed25519.PrivateKey) *Signer { return &Signer{keys} }

// KeyName names a public key: the first 8 bytes of its SHA-256, in hexadecimal.
func KeyName(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:8])
}

// Keys is what a worker needs to verify this signer's tickets.
func (s *Signer) Keys() map[string][]byte {
	out := map[string][]byte{}
	for _, key := range s.keys() {
		public := key.Public().(ed25519.PublicKey)
		out[KeyName(public)] = public
	}
	return out
}

// Key names the key that signs.
func (s *Signer) Key() string { return KeyName(s.keys()[0].Public().(ed25519.PublicKey)) }

// Secrets are secrets that whoever has the same keys has, too, for a purpose besides tickets, of which nobody can tell
// the keys: one for each key, that of the signing one first.
func (s *Signer) Secrets(purpose string) [][]byte {
	var out [][]byte
	for _, key := range s.keys() {
		h := hmac.New(sha256.New, key.Seed())
		h.Write([]byte(purpose))
		out = append(out, h.Sum(nil))
	}
	return out
}

// Sign returns the signed ticket, serialised.
func (s *Signer) Sign(t *pb.Ticket) ([]byte, error) {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("ticket: marshal: %w", err)
	}
	key := s.keys()[0]
	return proto.Marshal(&pb.SignedTicket{
		Ticket: body, Signature: ed25519.Sign(key, body),
		Key: KeyName(key.Public().(ed25519.PublicKey)),
	})
}

// Verify checks a stream request, its program included, against public keys by name and returns its ticket. An error
// never quotes the request.
func Verify(req *pb.StreamRequest, keys map[string][]byte, now time.Time) (*pb.Ticket, error) {
	t, err := VerifySigned(req.GetTicket(), keys, now)
	if err == nil && Digest(req.GetProgram()) != string(t.GetProgramDigest()) {
		return nil, ErrProgram
	}
	return t, err
}

// VerifySigned is Verify of a ticket alone, whatever program it is shown with.
func VerifySigned(signed *pb.SignedTicket, keys map[string][]byte, now time.Time) (*pb.Ticket, error) {
	key, ok := keys[signed.GetKey()]
	if !ok || len(key) != ed25519.PublicKeySize {
		return nil, ErrUnknownKey
	}
	if !ed25519.Verify(key, signed.GetTicket(), signed.GetSignature()) {
		return nil, ErrSignature
	}
	var t pb.Ticket
	if err := proto.Unmarshal(signed.GetTicket(), &t); err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	if now.Unix() >= t.GetExpiresUnix() {
		return nil, ErrExpired
	}
	return &t, nil
}

// Digest is the SHA-256 by which tickets name a serialised program.
func Digest(program []byte) string {
	sum := sha256.Sum256(program)
	return string(sum[:])
}
