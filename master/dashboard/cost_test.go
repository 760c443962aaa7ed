package dashboard_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/master/dashboard"
)

// Of a thousand workers, a viewer is told in each fifth round, as rounds go by, however few of them the machine has
// time for.
func TestLargeFleetIsToldInBrief(t *testing.T) {
	const workers, rounds, every = 1000, 20, 50 * time.Millisecond
	s := &source{seen: generate(workers, 20, 10, 1)}
	srv := serve(t, dashboard.Config{Source: s, Every: every})
	begin := time.Now()
	next, _ := watch(t, srv.URL+"/api/v1/stream?workers=1", "") //nolint:bodyclose // watch closes it
	size, told := map[string]int{}, map[string]int{}
	for told["observation"] < rounds {
		m := next()
		var compact bytes.Buffer // protojson puts spaces into its texts in some builds, and in others not
		if err := json.Compact(&compact, []byte(m.data)); err != nil {
			t.Fatal(err)
		}
		size[m.kind] += compact.Len()
		told[m.kind]++
	}
	gone := int(time.Since(begin) / every)
	t.Logf("%d rounds: told %v, in bytes %v", gone, told, size)
	if told["workers"] < rounds/5 || told["workers"] > 2+gone/5 {
		t.Errorf("of %d rounds, %d told of workers", gone, told["workers"])
	}
	if size["workers"] < rounds*workers || size["workers"]/told["workers"] > 300*workers ||
		size["observation"]/rounds > 420*20*8 {
		t.Errorf("%v messages took %v bytes", told, size)
	}
}

// BenchmarkViewers is what a round costs the master, by how many look.
func BenchmarkViewers(b *testing.B) {
	for _, workers := range []int{10, 1000} {
		for _, viewers := range []int{1, 20} {
			b.Run(fmt.Sprintf("workers=%d/viewers=%d", workers, viewers), func(b *testing.B) {
				s := &source{seen: generate(workers, 20, 10, 1)}
				const every = 100 * time.Millisecond
				srv := httptest.NewServer(
					dashboard.New(dashboard.Config{Source: s, Every: every, Viewers: 4 * viewers}))
				defer srv.Close()
				var all []func() message
				for range viewers {
					next, resp := watch(b, srv.URL+"/api/v1/stream?workers=1", "")
					defer resp.Body.Close()
					all = append(all, next)
				}
				before := cpu(b)
				b.ResetTimer()
				for range b.N {
					for _, next := range all {
						for next().kind != "observation" {
						}
					}
				}
				b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/round")
			})
		}
	}
}

// cpu is what this process has used, its clients among it.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
