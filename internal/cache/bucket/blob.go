package bucket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/internal/cache"
)

// chunk is how much of a body is read at once.
const chunk = 256 << 10

// buffers are for bodies.
var buffers = sync.Pool{New: func() any { return new([chunk]byte) }} //nolint:gochecknoglobals // only spare memory

// handle does what a request asks for.
func (b *bucket) handle(w http.ResponseWriter, r *http.Request, key cache.Key) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		b.get(w, r, key)
	case http.MethodPut:
		b.put(w, r, key)
	case http.MethodDelete:
		if err := b.Cache.Delete(key); err != nil {
			unavailable(w)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT, DELETE")
		http.Error(w, "a blob takes GET, HEAD, PUT and DELETE alone", http.StatusMethodNotAllowed)
	}
}

func (b *bucket) get(w http.ResponseWriter, r *http.Request, key cache.Key) {
	v, ok := b.Cache.Get(key)
	if !ok {
		http.Error(w, "there is no such blob; put it", http.StatusNotFound)
		return
	}
	defer v.Close()
	file, err := v.File()
	if err != nil { // it is damaged, and removed
		http.Error(w, "there is no such blob any more; put it", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", fmt.Sprintf(`"%x-%08x"`, v.Size(), v.Sum()))
	allowWrite(w, v.Size())
	http.ServeContent(w, r, "", time.Time{}, &content{file, v.Size()})
}

// content is the first bytes of a file. It is a file to net, which has the kernel send it.
type content struct {
	*os.File
	size int64
}

// Seek implements io.Seeker, by which http.ServeContent finds the size. It reads no more than that.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		offset, whence = c.size+offset, io.SeekStart
	}
	return c.File.Seek(offset, whence)
}

func (b *bucket) put(w http.ResponseWriter, r *http.Request, key cache.Key) {
	select {
	case <-b.Cache.Loaded():
	case <-r.Context().Done():
		return
	}
	limit := b.Cache.Stats().MaxBytes
	body := slow(w, r.Body)
	same, err := false, cache.ErrFull
	if r.ContentLength <= limit {
		same, err = b.keep(http.MaxBytesReader(w, body, limit), r.ContentLength, key)
	}
	if err == nil && same {
		w.WriteHeader(http.StatusCreated)
		return
	}
	broken := body.err
	_, _ = io.CopyN(io.Discard, body, limit) // who still sends might not see the answer
	switch {
	case err == nil:
		http.Error(w, "the name has other bytes, and means them for ever; put these under another name",
			http.StatusConflict)
	case errors.As(err, new(*http.MaxBytesError)) || errors.Is(err, cache.ErrFull):
		http.Error(w, tooLarge(limit), http.StatusRequestEntityTooLarge)
	case broken != nil:
		http.Error(w, "the blob did not come whole: "+broken.Error()+"; put it again", http.StatusBadRequest)
	default:
		unavailable(w)
	}
}

func tooLarge(limit int64) string {
	return fmt.Sprintf("the bucket's quota is %d bytes, and blobs that are being put take the rest, or this one is "+
		"larger; put it later, or ask for a larger quota", limit)
}

// unavailable says that the disk fails. Why is for the log.
func unavailable(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "60")
	http.Error(w, "the bucket's disk fails; try again later, or see this node's log for why",
		http.StatusServiceUnavailable)
}

// keep keeps a body under a key. It reports whether the key's blob is the same.
func (b *bucket) keep(body io.Reader, size int64, key cache.Key) (same bool, err error) {
	if v, ok := b.Cache.Peek(key); ok {
		defer v.Close()
		return equal(body, v)
	}
	w, err := b.Cache.Create(key, size)
	if err != nil {
		return false, err
	}
	defer w.Close()
	buffer := buffers.Get().(*[chunk]byte) //nolint:forcetypeassert // the pool has nothing else
	defer buffers.Put(buffer)
	if _, err := io.CopyBuffer(w, body, buffer[:]); err != nil {
		return false, err
	}
	if err = w.Commit(); !errors.Is(err, cache.ErrExists) {
		return true, err
	}
	v, ok := b.Cache.Peek(key)
	if !ok {
		return false, errors.New("it was put and removed while this came")
	}
	defer v.Close()
	return equal(io.NewSectionReader(w, 0, 1<<62), v)
}

// equal reports whether what can be read is a value.
func equal(r io.Reader, v *cache.Value) (bool, error) {
	a := buffers.Get().(*[chunk]byte) //nolint:forcetypeassert // the pool has nothing else
	b := buffers.Get().(*[chunk]byte) //nolint:forcetypeassert // the pool has nothing else
	defer buffers.Put(a)
	defer buffers.Put(b)
	for at := int64(0); ; {
		n, err := io.ReadFull(r, a[:])
		ends := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ends {
			return false, err
		}
		m, err := v.ReadAt(b[:n], at)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		at += int64(n)
		if n != m || !bytes.Equal(a[:n], b[:n]) {
			return false, nil
		}
		if ends {
			return at == v.Size(), nil
		}
	}
}

// slowBody is a body that may come as slowly as its client is allowed to.
type slowBody struct {
	io.ReadCloser
	out   *http.ResponseController
	began time.Time
	bytes int64
	err   error // but io.EOF
}

func slow(w http.ResponseWriter, body io.ReadCloser) *slowBody {
	return &slowBody{ReadCloser: body, out: http.NewResponseController(w), began: time.Now()}
}

// Read implements io.Reader.
func (b *slowBody) Read(p []byte) (int, error) {
	deadline := b.began.Add(allowance(b.bytes))
	_ = b.out.SetReadDeadline(deadline) // every server's can
	_ = b.out.SetWriteDeadline(deadline.Add(patience))
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// allowWrite gives a client the time that it may take for an answer of so many bytes.
func allowWrite(w http.ResponseWriter, bytes int64) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(allowance(bytes))) // every server's can
}

func allowance(bytes int64) time.Duration {
	return patience + time.Duration(bytes/slowest)*time.Second
}
