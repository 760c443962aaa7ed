package main

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/features"
)

// Jobs read as much as they should, a model's jobs read nearly the same, and an order saves requests.
func TestTrace(t *testing.T) {
	s := meta()
	s.columns, s.jobs, s.models = 400, 40, 4
	made := s.make()
	all, widest := int64(0), int64(0)
	for _, n := range made.bytes {
		all, widest = all+n, max(widest, n)
	}
	for i, job := range made.jobs {
		read := int64(0)
		for _, c := range job {
			read += made.bytes[c]
		}
		least, most := int64(s.least*float64(all)), int64(s.most*float64(all))+widest
		if read < least-1 || read > most {
			t.Errorf("job %d reads %d of %d bytes, and not %d to %d", i, read, all, least, most)
		}
	}
	l := features.LayoutOf(made.reads())
	was, is := l.Cost(nil, storage.Reading{}), l.Cost(l.Order(), storage.Reading{})
	if len(made.jobs) != s.jobs || is.Requests > was.Requests/2 || is.Bytes > was.Bytes {
		t.Errorf("%d jobs read %+v in file order, and %+v by popularity", len(made.jobs), was, is)
	}
}

// Numbers of nothing are an error, and not a measurement.
func TestNothing(t *testing.T) {
	for _, flag := range []string{"--columns", "--jobs", "--models", "--row-groups"} {
		cmd := command()
		cmd.SetArgs([]string{flag, "0"})
		cmd.SilenceErrors = true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s 0: got %v", flag, err)
		}
	}
}
