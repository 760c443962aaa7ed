package object

import (
	"context"
	"io"

	"github.com/penstock-ml/penstock/api/pb"
)

// Store describes a kind of storage. Package storage has a table of them, and knows nothing else of any.
type Store struct {
	// Name is that of the store's folder, and the type of its profiles.
	Name string
	// Schemes begin its URIs: "s3" those of s3://bucket/key.
	Schemes []string
	// Canonical checks a URI of one of the schemes, and completes it. Its errors repeat the URI.
	Canonical func(uri string) (string, error)
	// Named are those of the Schemes whose URIs have a name before an "@", as abfss://container@account/ has: Canonical
	// refuses what holds credentials.
	Named []string
	// Unversioned is a canonical URI without the version that it names; nil: URIs name none.
	Unversioned func(uri string) string
	// Profile returns a pointer to an empty profile, which YAML is decoded into: a struct with a field for "type", too.
	// Each field has its name as yaml tag, by which the environment sets it: texts, lists of texts and booleans.
	// An empty profile opens the store as its own tools would.
	Profile func() Profile
	// Backend, in place of Profile, is that of a store which needs none.
	Backend Backend
}

// Profile says how a store is reached. It holds no secrets, only where to find them.
type Profile interface {
	// Validate finds mistakes that can be seen without connecting.
	Validate() error
	// Open connects to nothing yet.
	Open() (Backend, error)
}

// Allowing is a Profile that says what may be written.
type Allowing interface {
	// WritePrefixes are the URIs of folders below which new files may be begun.
	WritePrefixes() []string
}

// Backend is a store that was opened. It makes one attempt of everything, and marks its errors with Transient where
// another may help. One that holds connections has a method Close, too.
type Backend interface {
	// Stat describes the file of that URI; it fails with fs.ErrNotExist if there is none.
	Stat(ctx context.Context, uri string) (*pb.File, error)
	// List hands each file that q asks for to yield, and ends with yield's error if it has one.
	List(ctx context.Context, q Query, yield func(*pb.File) error) error
	// ReadAt fills buf from offset. It fails with ErrChanged if the file is no longer the one that was listed; its
	// errors need not name the file.
	ReadAt(ctx context.Context, f *pb.File, buf []byte, offset int64) error
}

// Versioned is a Backend of folders of which all versions can be read.
type Versioned interface {
	// Root is what a URI begins with up to the version, "/" included.
	Root(uri string) (string, error)
	// Pin returns the root of the version that a root stands for at present.
	Pin(ctx context.Context, root string) (string, error)
}

// Writer is a Backend that writes, too.
type Writer interface {
	// Put writes a file, in place of one that may be there. Whoever reads finds the old one, or the new one whole.
	Put(ctx context.Context, uri string, body io.ReaderAt, size int64) error
	// Remove removes a file. It is no error if there is none: an attempt before may have removed it.
	Remove(ctx context.Context, uri string) error
}

// PartSize is the size of all parts of an upload but the last.
const PartSize = 16 << 20

// MaxParts is the most parts of an upload.
const MaxParts = 10_000

// Uploader is a Backend that takes new files part by part. Nobody sees one before it is finished, and until then it
// stays, whether whoever began it lives or not.
type Uploader interface {
	// Begin begins a file, and names its upload.
	Begin(ctx context.Context, uri string) (upload string, err error)
	// Part takes part n, from 1, and returns its tag. A part may be given again.
	Part(ctx context.Context, uri, upload string, n int, body []byte) (tag string, err error)
	// Finish gives the file its name, or fails with fs.ErrExist if there is a file of that name, and with
	// fs.ErrNotExist if there is no such upload: it may be finished already.
	Finish(ctx context.Context, uri, upload string, tags []string) error
	// Drop forgets an upload. It is no error if there is none.
	Drop(ctx context.Context, uri, upload string) error
}
