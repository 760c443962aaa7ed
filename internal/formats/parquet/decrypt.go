package parquet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-ml/penstock/internal/formats/parquet/crypt"
	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/keys"
)

// Keys finds the keys of encrypted files. Its errors are marked as storage.IsTransient or storage.IsOurs.
type Keys interface {
	// Key returns the key that key metadata stands for.
	Key(ctx context.Context, metadata []byte) (*keys.Key, error)
	// AADPrefix is what files must be bound to; "" if they need not be.
	AADPrefix() string
}

// noKeys is the Keys of who has none.
type noKeys struct{}

func (noKeys) Key(context.Context, []byte) (*keys.Key, error) { return nil, errors.New("no keys") }
func (noKeys) AADPrefix() string                              { return "" }

// secrets is what a file's encryption needs while its footer is read.
type secrets struct {
	ctx       context.Context //nolint:containedctx // a parser lives as long as the call that reads a footer
	keys      Keys
	opener    crypt.Opener
	file      *crypt.File // nil: the file is not encrypted
	footerKey []byte      // metadata of the key of the footer, or of its signature
	missing   map[string]error
}

// algorithm is EncryptionAlgorithm as a file has it.
type algorithm struct {
	known, ctr, external bool
	prefix, unique       []byte
}

// readAlgorithm reads an EncryptionAlgorithm, a union.
func readAlgorithm(r *thrift.Reader) (a algorithm) {
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		if f != 1<<4|thrift.Struct && f != 2<<4|thrift.Struct {
			r.Skip(f)
			continue
		}
		a = algorithm{known: true, ctr: f>>4 == 2}
		for g := r.Next(0); g != thrift.Stop; g = r.Next(g) {
			switch g {
			case 1<<4 | thrift.Binary:
				a.prefix = r.Bytes()
			case 2<<4 | thrift.Binary:
				a.unique = r.Bytes()
			case 3<<4 | thrift.True:
				a.external = true
			default:
				r.Skip(g)
			}
		}
	}
	return a
}

// use prepares for a file that is encrypted so.
func (s *secrets) use(a algorithm) error {
	want := s.keys.AADPrefix()
	switch {
	case !a.known:
		return errors.New("it is encrypted in a way that cannot be read; AES_GCM_V1 and AES_GCM_CTR_V1 can")
	case a.external && want == "":
		return storage.Ours(
			errors.New(
				"the AAD prefix of its encryption is not stored in it: name it as aad_prefix beside the keys in " +
					"--storage-config"))
	case want != "" && !a.external && string(a.prefix) != want:
		return storage.Ours(
			fmt.Errorf("it is bound to the AAD prefix %q, not to %q: it is another file than the one expected",
				a.prefix, want))
	case want == "":
		want = string(a.prefix)
	}
	s.file = &crypt.File{AAD: append([]byte(want), a.unique...), CTR: a.ctr}
	return nil
}

// key finds a key, and asks once only for one that is missing.
func (s *secrets) key(metadata []byte) (*keys.Key, error) {
	if err := s.missing[string(metadata)]; err != nil {
		return nil, err
	}
	k, err := s.keys.Key(s.ctx, metadata)
	if err != nil {
		if s.missing == nil {
			s.missing = make(map[string]error)
		}
		s.missing[string(metadata)] = err
	}
	return k, err
}

// openFooter opens an encrypted footer: FileCryptoMetaData and the encrypted FileMetaData.
func (s *secrets) openFooter(data []byte) ([]byte, error) {
	var a algorithm
	r := thrift.NewReader(data)
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.Struct:
			a = readAlgorithm(r)
		case 2<<4 | thrift.Binary:
			s.footerKey = r.Bytes()
		default:
			r.Skip(f)
		}
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	if err := s.use(a); err != nil {
		return nil, err
	}
	key, err := s.key(s.footerKey)
	if err != nil {
		return nil, fmt.Errorf("it is encrypted: %w", err)
	}
	return s.opener.OpenFooter(s.file, key, data[r.Pos():])
}

// verify checks the signature of a plaintext footer, unless its key is missing.
func (s *secrets) verify(footer, signature []byte) error {
	key, err := s.key(s.footerKey)
	switch {
	case err != nil && (storage.IsTransient(err) || s.ctx.Err() != nil):
		return fmt.Errorf("the key of its signature: %w", err)
	case err != nil:
		return nil //nolint:nilerr // who lacks the key reads what needs none
	}
	return s.file.Verify(key, footer, signature)
}

// columnCrypto is what a column chunk says of its encryption.
type columnCrypto struct {
	encrypted bool
	key       []byte // metadata; of the footer's key if that encrypts it
	metadata  []byte // the encrypted ColumnMetaData, if there is one
}

// readCrypto reads a ColumnCryptoMetaData, a union.
func (p *parser) readCrypto(r *thrift.Reader, c *columnCrypto) {
	c.encrypted, c.key = true, p.secrets.footerKey
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		if f != 2<<4|thrift.Struct {
			r.Skip(f)
			continue
		}
		c.key = nil
		for g := r.Next(0); g != thrift.Stop; g = r.Next(g) {
			if g == 2<<4|thrift.Binary {
				c.key = r.Bytes()
			} else {
				r.Skip(g)
			}
		}
	}
}

// decrypt prepares an encrypted chunk for reading and, where that is apart, reads its metadata. A leaf whose key is
// missing is blocked; the rest of the file can be read all the same.
func (p *parser) decrypt(leaf int, c *Chunk, x columnCrypto, found, kept bool) error {
	s := &p.secrets
	if s.file == nil {
		return errors.New("its column chunk is encrypted, but the footer does not say how: the file is damaged")
	}
	key, err := s.key(x.key)
	switch {
	case err != nil && (storage.IsTransient(err) || s.ctx.Err() != nil):
		return fmt.Errorf("its key: %w", err)
	case err != nil:
		p.block(leaf, "encrypted, and its key cannot be had: "+err.Error())
		p.lock(leaf, err)
		*c = Chunk{Stats: Stats{Nulls: -1}}
		return nil
	}
	crypto, err := s.file.Chunk(key, p.group, leaf)
	if err != nil {
		return err
	}
	switch {
	case len(x.metadata) > 0:
		plain, err := s.opener.Open(nil, crypto, crypt.ColumnMetadata, 0, x.metadata)
		if err != nil {
			return fmt.Errorf("its metadata: %w", err)
		}
		index := c.pageIndex
		*c = Chunk{pageIndex: index}
		if err := p.metadata(thrift.NewReader(plain), leaf, c, kept); err != nil {
			return err
		}
	case !found:
		return errors.New("its column chunk has no metadata")
	}
	c.Crypt = crypto
	return nil
}

func (p *parser) lock(leaf int, err error) {
	if p.locked == nil {
		p.locked = make(map[int]error)
	}
	p.locked[leaf] = err
}

// Locked returns why the key of a column is missing, if it is; the error is marked as storage.IsOurs.
func (f *Footer) Locked(column int) error {
	for leaf := range f.leaves(column) {
		if err := f.locked[leaf]; err != nil {
			return fmt.Errorf("column %s is encrypted: %w", strings.Join(f.Schema.Columns[column].Path, "."), err)
		}
	}
	return nil
}
