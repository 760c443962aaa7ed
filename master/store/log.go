package store

import (
	"context"
	"errors"
	"log/slog"
	"syscall"

	"go.uber.org/zap/zapcore"
)

// logCore passes etcd's zap entries on to slog, as debug: etcd calls dropped connections warnings and its own Close an
// error, and what goes wrong for good shows in the calls that fail. Only its panics are errors, and what it ends the
// process with, as zap does after such an entry.
type logCore struct {
	logger *slog.Logger
	folder string // of an embedded etcd
}

func level(l zapcore.Level) slog.Level {
	if l >= zapcore.DPanicLevel {
		return slog.LevelError
	}
	return slog.LevelDebug
}

// Enabled leaves out etcd's own debug entries.
func (c *logCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.InfoLevel && c.logger.Enabled(context.Background(), level(l))
}

// With returns a core that adds fields to every entry.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{c.logger.With(attrs(fields)...), c.folder}
}

// Check adds c to the cores that will write the entry.
func (c *logCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write passes an entry on.
func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.logger.Log(context.Background(), level(e.Level), e.Message, attrs(fields)...)
	if e.Level >= zapcore.PanicLevel && c.folder != "" {
		c.logger.Error("the embedded etcd cannot go on, and this process ends; "+advice(fields), "folder", c.folder)
	}
	return nil
}

// advice says what to do about an embedded etcd that ends.
func advice(fields []zapcore.Field) string {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)) {
			return "its disk is full: free space there, and start this master again. What it acknowledged is kept, " +
				"and trainers wait for it"
		}
	}
	return "see that its folder's disk is well, and start this master again. What it acknowledged is kept, and " +
		"trainers wait for it"
}

// Sync has nothing to flush.
func (c *logCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	out := make([]any, 0, len(fields))
	for _, f := range fields {
		if v, ok := enc.Fields[f.Key]; ok {
			out = append(out, slog.Any(f.Key, v))
		}
	}
	return out
}
