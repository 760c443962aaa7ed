package reads

import (
	"context"
	"io"

	"github.com/penstock-ml/penstock/internal/cache"
)

// Run writes what is to be kept until ctx ends, and then what waits still.
func (r *Reads) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case key := <-r.queue:
			r.write(key)
		case <-ctx.Done():
		}
	}
	for {
		select {
		case key := <-r.queue:
			r.write(key)
		default:
			return
		}
	}
}

// write writes a unit that waits for it. A cache that cannot keep it says so itself: the unit is read again.
func (r *Reads) write(key cache.Key) {
	r.mu.Lock()
	data := r.queued[key]
	r.mu.Unlock()
	err := r.units.Put(key, int64(len(data)), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		r.dropped.Add(1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.queued, key)
	r.waiting -= len(data)
}
