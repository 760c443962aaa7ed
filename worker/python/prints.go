package python

import (
	"context"
	"log/slog"
)

// What the log says of what functions print.
const (
	printsLine = "a Python process prints"
	printsMuch = "lines of a Python process were left out: it prints too many"
)

// Printing is a logger that has f called, besides, with what functions print: with the op, and a line. f may be called
// by several goroutines at a time, and does not block.
func Printing(logger *slog.Logger, f func(op, line string)) *slog.Logger {
	return slog.New(&printing{logger.Handler(), f})
}

type printing struct {
	slog.Handler
	f func(op, line string)
}

// Enabled has all that is printed come, whatever the log takes.
func (p *printing) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || p.Handler.Enabled(ctx, level)
}

func (p *printing) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == printsLine || r.Message == printsMuch {
		op, line := "", "..."
		r.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "op":
				op = a.Value.String()
			case "text":
				line = a.Value.String()
			}
			return true
		})
		p.f(op, line)
	}
	if !p.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return p.Handler.Handle(ctx, r)
}

func (p *printing) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &printing{p.Handler.WithAttrs(attrs), p.f}
}

func (p *printing) WithGroup(name string) slog.Handler {
	return &printing{p.Handler.WithGroup(name), p.f}
}
