package command

import (
	"bytes"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The steps of `penstock keys --rotate`. Between two of them all processes read what the first one wrote.
const (
	rotateAdd  = "add"  // new ones stand after the old ones: every process takes both
	rotateUse  = "use"  // new ones stand in front: they are shown, sign and encrypt
	rotateDrop = "drop" // the old ones are gone
)

// nextDir holds the new secrets from the first step until the second is done, so that a step that was interrupted can
// be taken again.
const nextDir = "authority/next"

// rotatedFile is one that holds several secrets while they are being replaced.
type rotatedFile struct {
	path  string
	split func([]byte) [][]byte
	make  func() ([]byte, error)
}

func rotated() []rotatedFile {
	return []rotatedFile{
		{"master/token", lines, randomWord},
		{"fleet/worker.token", lines, randomWord},
		{"fleet/gossip.key", lines, randomWord},
		{"master/ticket.key", pemBlocks, ticketKeyText},
	}
}

func randomWord() ([]byte, error) { return []byte(rand.Text() + "\n"), nil }

// lines are the lines of a file, each with its end.
func lines(text []byte) [][]byte {
	var out [][]byte
	for word := range bytes.FieldsSeq(text) {
		out = append(out, append(bytes.Clone(word), '\n'))
	}
	return out
}

// pemBlocks are the PEM blocks of a file.
func pemBlocks(text []byte) [][]byte {
	var out [][]byte
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		out = append(out, pem.EncodeToMemory(block))
	}
	return out
}

// rotate takes one step for all secrets of the fleet at once.
func (k *keyMaker) rotate(step string) error {
	_, err := os.Stat(k.at(nextDir))
	added := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keys: %w", err)
	}
	switch step {
	case rotateAdd:
		return k.addNext(added)
	case rotateUse:
		if !added {
			return errors.New("keys: there are no new secrets to use; begin with --rotate add")
		}
		return k.useNext()
	case rotateDrop:
		if added {
			return errors.New("keys: the new secrets are not in use yet; --rotate use comes first")
		}
		return k.dropLast()
	}
	return fmt.Errorf("keys: --rotate: want %s, %s or %s, found %q", rotateAdd, rotateUse, rotateDrop, step)
}

// addNext makes new secrets, and puts each after the old one.
func (k *keyMaker) addNext(again bool) error {
	for _, r := range rotated() {
		old, err := k.several(r.path, r.split)
		if err != nil {
			return err
		}
		if len(old) > 1 && !again {
			return fmt.Errorf("keys: %s holds %d already; end the last rotation with --rotate drop",
				k.at(r.path), len(old))
		}
		next := nextDir + "/" + r.path
		if err := k.keep(next, r.make); err != nil {
			return err
		}
		if err := k.arrange(r.path, old, next, false); err != nil {
			return err
		}
	}
	if _, err := k.authority(nextDir+"/ca", "Penstock fleet", ""); err != nil {
		return err
	}
	old, err := k.several("fleet/ca.crt", pemBlocks)
	if err != nil {
		return err
	}
	return k.arrange("fleet/ca.crt", old, nextDir+"/ca.crt", false)
}

// useNext puts the new secrets first, and has the new authority issue the fleet's certificate.
func (k *keyMaker) useNext() error {
	for _, r := range rotated() {
		all, err := k.several(r.path, r.split)
		if err == nil {
			err = k.arrange(r.path, all, nextDir+"/"+r.path, true)
		}
		if err != nil {
			return err
		}
	}
	for _, end := range []string{".key", ".crt"} {
		text, err := os.ReadFile(k.at(nextDir + "/ca" + end))
		if err == nil {
			err = k.write("authority/ca"+end, text)
		}
		if err != nil {
			return fmt.Errorf("keys: %w", err)
		}
	}
	signer, err := k.authority("authority/ca", "", "fleet/ca.crt")
	if err != nil {
		return err
	}
	k.renew = true
	if err := k.certificate(signer, "fleet/tls", k.ports()); err != nil {
		return err
	}
	return os.RemoveAll(k.at(nextDir))
}

// dropLast keeps of each file what stands first, and of the authorities the one that issues.
func (k *keyMaker) dropLast() error {
	before := len(k.made)
	for _, r := range rotated() {
		all, err := k.several(r.path, r.split)
		if err != nil {
			return err
		}
		if len(all) > 1 {
			if err := k.write(r.path, all[0]); err != nil {
				return err
			}
		}
	}
	own, err := os.ReadFile(k.at("authority/ca.crt"))
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if trusted, err := os.ReadFile(k.at("fleet/ca.crt")); err != nil || !bytes.Equal(trusted, own) {
		if err := k.write("fleet/ca.crt", own); err != nil {
			return err
		}
	}
	if len(k.made) == before {
		return errors.New("keys: there is nothing to drop: each file holds one secret")
	}
	return nil
}

// several reads the secrets of a file.
func (k *keyMaker) several(path string, split func([]byte) [][]byte) ([][]byte, error) {
	text, err := os.ReadFile(k.at(path))
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	all := split(text)
	if len(all) == 0 {
		return nil, fmt.Errorf("keys: %s holds no secret; remove it to have one made", filepath.Clean(k.at(path)))
	}
	return all, nil
}

// arrange writes the secrets of a file with the one of another file first or last among them.
func (k *keyMaker) arrange(path string, all [][]byte, next string, first bool) error {
	text, err := os.ReadFile(k.at(next))
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	all = slices.DeleteFunc(all, func(one []byte) bool { return bytes.Equal(one, text) })
	at := len(all)
	if first {
		at = 0
	}
	return k.write(path, bytes.Join(slices.Insert(all, at, text), nil))
}
