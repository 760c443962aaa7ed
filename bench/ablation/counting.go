package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// parallel is how many requests for a row group are under way at a time, as those of storage.ReadRanges.
const parallel = 8

// service says how long an object store takes for a request.
type service struct {
	latency   time.Duration
	bandwidth int64 // bytes a second of one connection
}

func (s service) of(bytes int) time.Duration {
	return s.latency + time.Duration(float64(bytes)/float64(s.bandwidth)*float64(time.Second))
}

// counting counts the requests to a storage, and the time that they would take of an object store.
type counting struct {
	storage.Storage
	service service
	sleeps  bool // requests take that time

	mu    sync.Mutex
	used  usage
	lanes [parallel]time.Duration // when each connection is free again
}

// ReadAt reads.
func (c *counting) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	took := c.service.of(len(buf))
	c.count(len(buf), took)
	if c.sleeps {
		timer := time.NewTimer(took)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return c.Storage.ReadAt(ctx, profile, f, buf, offset)
}

// count has the connection that is free first take a request.
func (c *counting) count(bytes int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used.Requests++
	c.used.Bytes += int64(bytes)
	c.used.Service += took.Seconds()
	lane := slices.Index(c.lanes[:], slices.Min(c.lanes[:]))
	c.lanes[lane] += took
}

// fetched is called where all requests so far have been waited for.
func (c *counting) fetched() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used.Wait += slices.Max(c.lanes[:]).Seconds()
	clear(c.lanes[:])
}

// usage is that of the storage, without CPU time.
func (c *counting) usage() usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}
