// Package crypt opens the modules of encrypted Parquet files (Parquet Modular Encryption, AES_GCM_V1 and
// AES_GCM_CTR_V1). Package parquet opens footers, column metadata and page indexes with it and gives each column chunk
// a Chunk, by which worker/formats/parquet opens its pages. A File, a Chunk and their keys never change and may be used
// by many goroutines; an Opener is scratch of one. Keys come from storage/keys and are in no output of this package.
package crypt

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/internal/storage/keys"
)

// Module is a kind of module, numbered as in the format's specification.
type Module byte

// Modules.
const (
	Footer Module = iota
	ColumnMetadata
	DataPage
	DictionaryPage
	DataPageHeader
	DictionaryPageHeader
	ColumnIndex
	OffsetIndex
)

// paged reports whether modules of this kind are numbered in their chunk.
func (m Module) paged() bool { return m == DataPage || m == DataPageHeader }

// PrefixSize is how many bytes of a module say how long the rest is.
const PrefixSize = 4

const (
	nonceSize = 12
	tagSize   = 16
)

// SignatureSize is the length of what follows a plaintext footer: a nonce and a tag.
const SignatureSize = nonceSize + tagSize

// maxOrdinal is the highest number of a row group, column or page that can be encrypted.
const maxOrdinal = 1<<15 - 1

// ErrOpen says that a module is not what was written with the key at its place in the file.
var ErrOpen = errors.New("it does not decrypt: the key is wrong, or the file was damaged or tampered with")

// File is what all modules of a file have in common.
type File struct {
	// AAD is what each module is bound to: the AAD prefix and the file's unique bytes.
	AAD []byte
	// CTR says that pages are encrypted without a tag (AES_GCM_CTR_V1).
	CTR bool
}

// Verify checks the signature that follows a plaintext footer.
func (f *File) Verify(key *keys.Key, footer, signature []byte) error {
	if len(signature) != SignatureSize {
		return fmt.Errorf("its signature has %d bytes; want %d", len(signature), SignatureSize)
	}
	aad := append(append([]byte(nil), f.AAD...), byte(Footer))
	sealed := key.GCM.Seal(nil, signature[:nonceSize], footer, aad)
	if subtle.ConstantTimeCompare(sealed[len(footer):], signature[nonceSize:]) == 0 {
		return errors.New("its signature does not fit: the key is wrong, or the footer was damaged or tampered with")
	}
	return nil
}

// Chunk opens the modules of one column chunk.
type Chunk struct {
	file             *File
	key              *keys.Key
	rowGroup, column uint16
}

// Chunk returns what opens the modules of a column chunk.
func (f *File) Chunk(key *keys.Key, rowGroup, column int) (*Chunk, error) {
	if rowGroup < 0 || rowGroup > maxOrdinal || column < 0 || column > maxOrdinal {
		return nil, fmt.Errorf("row group %d, column %d is encrypted; both are below %d in files that can be",
			rowGroup, column, maxOrdinal+1)
	}
	return &Chunk{f, key, uint16(rowGroup), uint16(column)}, nil
}

// Opener opens modules, one after another.
type Opener struct{ aad []byte }

// OpenFooter opens the footer of a file.
func (o *Opener) OpenFooter(f *File, key *keys.Key, module []byte) ([]byte, error) {
	o.aad = append(append(o.aad[:0], f.AAD...), byte(Footer))
	return o.open(nil, key, module)
}

// Open opens a module of a chunk, of which number counts the data pages before it. The result lies in dst, as far as
// it fits; PlainSize tells its length.
func (o *Opener) Open(dst []byte, c *Chunk, kind Module, number int, module []byte) ([]byte, error) {
	if number < 0 || number > maxOrdinal {
		return nil, fmt.Errorf("page %d of an encrypted column chunk; it can have %d", number, maxOrdinal+1)
	}
	if c.file.CTR && (kind == DataPage || kind == DictionaryPage) {
		return c.openCTR(dst, module)
	}
	le := binary.LittleEndian
	o.aad = append(append(o.aad[:0], c.file.AAD...), byte(kind))
	o.aad = le.AppendUint16(le.AppendUint16(o.aad, c.rowGroup), c.column)
	if kind.paged() {
		o.aad = le.AppendUint16(o.aad, uint16(number))
	}
	return o.open(dst, c.key, module)
}

func (o *Opener) open(dst []byte, key *keys.Key, module []byte) ([]byte, error) {
	if err := check(module, PrefixSize+nonceSize+tagSize); err != nil {
		return nil, err
	}
	nonce, sealed := module[PrefixSize:PrefixSize+nonceSize], module[PrefixSize+nonceSize:]
	out, err := key.GCM.Open(dst[:0], nonce, sealed, o.aad)
	if err != nil {
		return nil, ErrOpen
	}
	return out, nil
}

// openCTR decrypts a page that has no tag: whether it is the one that was written, only its checksum could tell.
func (c *Chunk) openCTR(dst, module []byte) ([]byte, error) {
	if err := check(module, PrefixSize+nonceSize); err != nil {
		return nil, err
	}
	var start [aes.BlockSize]byte
	copy(start[:], module[PrefixSize:PrefixSize+nonceSize])
	start[aes.BlockSize-1] = 1
	sealed := module[PrefixSize+nonceSize:]
	if cap(dst) < len(sealed) {
		dst = make([]byte, len(sealed))
	}
	dst = dst[:len(sealed)]
	cipher.NewCTR(c.key.Block, start[:]).XORKeyStream(dst, sealed)
	return dst, nil
}

// check compares a module's length with the one it begins with.
func check(module []byte, minSize int) error {
	size, err := Size(module, len(module))
	switch {
	case err != nil:
		return err
	case size != len(module) || size < minSize:
		return fmt.Errorf("an encrypted module has %d bytes where it claims %d", len(module), size)
	}
	return nil
}

// Size is the length of the module that data begins, its length's own bytes included, where left bytes are left.
func Size(data []byte, left int) (int, error) {
	if len(data) < PrefixSize {
		return 0, errors.New("an encrypted module ends too early")
	}
	n := int64(binary.LittleEndian.Uint32(data)) + PrefixSize
	if n > int64(left) {
		return 0, fmt.Errorf("an encrypted module claims %d bytes where %d are left", n, left)
	}
	return int(n), nil
}

// PlainSize is the length of what a page of stored bytes opens to.
func (c *Chunk) PlainSize(stored int) (int, error) {
	over := PrefixSize + nonceSize + tagSize
	if c.file.CTR {
		over -= tagSize
	}
	if stored < over {
		return 0, fmt.Errorf("an encrypted page of %d bytes; it has at least %d", stored, over)
	}
	return stored - over, nil
}
