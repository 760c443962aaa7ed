package delta

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-ml/penstock/api/times"
)

// version is the one that an address names.
func (h *history) version(ctx context.Context, l *loader, named string) (int64, error) {
	if named == "" {
		return h.newest(), nil
	}
	if v, err := strconv.ParseUint(strings.TrimPrefix(named, "v"), 10, 63); err == nil {
		return int64(v), nil
	}
	at, err := times.Parse(named)
	if err != nil {
		return 0, fmt.Errorf("@%.60s is no version: name one as @v12, or a time as @2026-11-01T00:00Z", named)
	}
	return h.before(ctx, l, at)
}

// before is the newest version of a time. Times of commits are those that their writers noted, each at least a
// millisecond after that of the commit before it.
func (h *history) before(ctx context.Context, l *loader, at time.Time) (int64, error) {
	newestFirst := slices.Clone(h.commits)
	slices.Reverse(newestFirst)
	noted := make(map[int64]int64, len(h.commits))
	err := l.commits(ctx, newestFirst, func(a *action) error {
		if a.CommitInfo != nil {
			if ms, ok := a.CommitInfo.time(); ok {
				noted[a.version] = ms
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	found, last := int64(-1), int64(0)
	oldest := h.oldest()
	for i, c := range h.commits {
		ms, ok := noted[c.version]
		if !ok {
			return 0, fmt.Errorf("%s notes no time: name a version, such as @v%d", c.file.GetUri(), h.newest())
		}
		if i > 0 {
			ms = max(ms, last+1)
		}
		switch last = ms; {
		case ms <= at.UnixMilli():
			found = c.version
		case found < 0 || found < oldest:
			return 0, fmt.Errorf("no version is as old as %s: version %d of %s is the oldest that is there; "+
				"name a later time",
				at.Format(time.RFC3339), max(c.version, oldest), time.UnixMilli(ms).UTC().Format(time.RFC3339))
		}
	}
	if found < 0 || found < oldest {
		return 0, fmt.Errorf("no commit is left that notes a time: name a version, such as @v%d", h.newest())
	}
	return found, nil
}
