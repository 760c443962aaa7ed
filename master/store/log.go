package store

import (
	"context"
	"log/slog"
	"sync/atomic"

	"go.uber.org/zap/zapcore"
)

// logCore passes etcd's zap entries on to slog, one step quieter: etcd calls every dropped connection a
// warning. While quiet is set, nothing is above debug: etcd logs the end of its own listeners as errors.
type logCore struct {
	logger *slog.Logger
	quiet  *atomic.Bool
}

func newLogCore(logger *slog.Logger) *logCore {
	return &logCore{logger: logger, quiet: new(atomic.Bool)}
}

func (c *logCore) level(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.DPanicLevel:
		return slog.LevelError
	case l == zapcore.ErrorLevel && !c.quiet.Load():
		return slog.LevelWarn
	default:
		return slog.LevelDebug
	}
}

// Enabled leaves out etcd's own debug entries.
func (c *logCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.InfoLevel && c.logger.Enabled(context.Background(), c.level(l))
}

// With returns a core that adds fields to every entry.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{logger: c.logger.With(attrs(fields)...), quiet: c.quiet}
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
	c.logger.Log(context.Background(), c.level(e.Level), e.Message, attrs(fields)...)
	return nil
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
