package reads

import "io"

// write writes what is queued until that is closed. A cache that cannot keep a unit says so itself: it is read again.
func (r *Reads) write() {
	defer close(r.written)
	for key := range r.queue {
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
		delete(r.queued, key)
		r.waiting -= len(data)
		r.mu.Unlock()
	}
}
