package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// counting counts the requests to a storage, each of which takes a time more than the storage does.
type counting struct {
	storage.Storage
	latency                  time.Duration
	requests, bytes, service atomic.Int64
}

// ReadAt reads.
func (c *counting) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	began := time.Now()
	if c.latency > 0 {
		timer := time.NewTimer(c.latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err := c.Storage.ReadAt(ctx, profile, f, buf, offset)
	c.requests.Add(1)
	c.bytes.Add(int64(len(buf)))
	c.service.Add(int64(time.Since(began)))
	return err
}
