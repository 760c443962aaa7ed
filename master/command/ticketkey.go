package command

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/reload"
)

// ticketKey is the file with a master's key, in the folder of its data.
const ticketKey = "ticket.key"

// signer signs with the first key of the file, which is made if it does not exist. Masters of one etcd share it.
func signer(path string, shared bool, logger *slog.Logger) (*ticket.Signer, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := newTicketKey(path); err != nil {
			return nil, err
		}
		if shared {
			logger.Warn(
				"made a new ticket key; all masters of one etcd must share it, or workers refuse the tickets of some: "+
					"give each other master a copy of the file, named by --ticket-key", "file", path)
		}
	}
	keys, err := reload.Open(path,
		func(text []byte) ([]ed25519.PrivateKey, error) { return parseTicketKeys(path, text) },
		func(err error) { logger.Error("the ticket keys cannot be taken", "error", err) })
	if err != nil {
		return nil, fmt.Errorf("ticket key: %w", err)
	}
	return ticket.RotatingSigner(keys.Get), nil
}

// parseTicketKeys reads PKCS #8 keys, at least one.
func parseTicketKeys(path string, text []byte) ([]ed25519.PrivateKey, error) {
	var keys []ed25519.PrivateKey
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		key, ok := parsed.(ed25519.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("%s holds a %T; want Ed25519", path, parsed)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s holds no PEM block; `openssl genpkey -algorithm ed25519` makes one", path)
	}
	return keys, nil
}

func newTicketKey(path string) error {
	text, err := ticketKeyText()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("ticket key: %w", err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("ticket key: %w", err)
	}
	return nil
}

// ticketKeyText is a ticket key of its own, as PEM.
func ticketKeyText() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("ticket key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("ticket key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
