package bucket

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokens knows a caller of each namespace by the token "of-NAMESPACE", and an administrator by "admin".
type tokens struct{}

func (tokens) Authenticate(_ context.Context, token string) (identity.Identity, error) {
	if token == "admin" {
		return identity.Identity{Everywhere: true, Subject: "admin", Roles: []identity.Role{identity.Admin}}, nil
	}
	namespace, ok := strings.CutPrefix(token, "of-")
	if !ok {
		return identity.Identity{}, identity.ErrStranger
	}
	role := identity.Trainer
	if namespace == "looker" {
		role = identity.Viewer
	}
	return identity.Identity{Namespace: namespace, Subject: token, Roles: []identity.Role{role}}, nil
}

const quota = 1 << 20

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// run serves the buckets a and b, the latter for the namespaces c and d, until the test ends or stop is called.
func run(t *testing.T, l net.Listener, owner Owner, change ...func(*Config)) (s *Server, stop func()) {
	t.Helper()
	open := func() *cache.Cache {
		c, err := cache.Open(cache.Config{Dir: t.TempDir(), MaxBytes: quota})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	peers := &http.Transport{}
	cfg := Config{
		Listener: l, Authenticator: tokens{}, Owner: owner, Peers: peers, Logger: slog.New(slog.DiscardHandler),
		Buckets: []Bucket{{Name: "a", Cache: open()}, {Name: "b", Namespaces: []string{"c", "d"}, Cache: open()}},
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		peers.CloseIdleConnections()
	})
	t.Cleanup(stop)
	return s, stop
}

type answer struct {
	code   int
	body   string
	header http.Header
}

// client closes its connections.
type client struct {
	t       *testing.T
	address string
	token   string
}

func (c client) do(method, path string, body io.Reader, headers ...string) answer {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.address+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer{resp.StatusCode, string(got), resp.Header}
}

func (c client) want(code int, method, path, body string) answer {
	c.t.Helper()
	got := c.do(method, path, strings.NewReader(body))
	if got.code != code {
		c.t.Errorf("%s %s: %d %s, not %d", method, path, got.code, got.body, code)
	}
	return got
}

// unsized hides how long a body is.
type unsized struct{ io.Reader }

func TestBlobs(t *testing.T) {
	l := listen(t)
	run(t, l, nil)
	c := client{t, l.Addr().String(), "of-a"}
	names := []string{
		"x", "..", ".", "x/../y", "//", "/x", "x/", "é", "%2F..%2f", "a?b", "a#b", "\x00", " ", "x\ny",
		strings.Repeat("ü", maxName/2),
	}
	for i, name := range names {
		path, body := "/buckets/a/"+url.PathEscape(name), fmt.Sprint("blob ", i)
		c.want(http.StatusNotFound, "GET", path, "")
		c.want(http.StatusCreated, "PUT", path, body)
		if got := c.want(http.StatusOK, "GET", path, ""); got.body != body {
			t.Errorf("%q has %q, not %q", name, got.body, body)
		}
	}
	const path = "/buckets/a/x"
	c.want(http.StatusCreated, "PUT", path, "blob 0")
	for _, other := range []string{"blob 1", "blob", "blob 01", ""} {
		c.want(http.StatusConflict, "PUT", path, other)
	}
	if got := c.do("PUT", path, unsized{strings.NewReader("blob 0")}); got.code != http.StatusCreated {
		t.Errorf("the same of a size that is not told: %+v", got)
	}
	for want, asked := range map[string]string{"lob": "bytes=1-3", "0": "bytes=-1", " 0": "bytes=4-"} {
		if got := c.do("GET", path, nil, "Range", asked); got.code != http.StatusPartialContent || got.body != want {
			t.Errorf("%s: %+v", asked, got)
		}
	}
	if got := c.do("GET", path, nil, "Range", "bytes=6-"); got.code != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("what is behind the blob: %+v", got)
	}
	head := c.want(http.StatusOK, "HEAD", path, "")
	if head.header.Get("Content-Length") != "6" || head.header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("%+v", head)
	}
	if got := c.do("GET", path, nil, "If-None-Match", head.header.Get("ETag")); got.code != http.StatusNotModified {
		t.Errorf("what the client has: %+v", got)
	}
	c.want(http.StatusMethodNotAllowed, "POST", path, "x")
	c.want(http.StatusNoContent, "DELETE", path, "")
	c.want(http.StatusNoContent, "DELETE", path, "")
	c.want(http.StatusNotFound, "GET", path, "")
	c.want(http.StatusCreated, "PUT", path, "")
	if got := c.want(http.StatusOK, "GET", path, ""); got.body != "" {
		t.Errorf("%q", got.body)
	}
	for _, wrong := range []string{"/", "/buckets", "/buckets/a", "/buckets/a/", "/bucket/a/x", "/buckets/a/%ff", "/buckets/a/" + strings.Repeat("x", maxName+1)} {
		c.want(http.StatusBadRequest, "GET", wrong, "")
	}
}

// TestQuota: blobs are evicted within their bucket, and one that is larger is refused, told of or not.
func TestQuota(t *testing.T) {
	l := listen(t)
	s, _ := run(t, l, nil)
	a, b := client{t, l.Addr().String(), "of-a"}, client{t, l.Addr().String(), "of-c"}
	blob := strings.Repeat("x", quota/4)
	b.want(http.StatusCreated, "PUT", "/buckets/b/kept", blob)
	for i := range 9 {
		a.want(http.StatusCreated, "PUT", fmt.Sprint("/buckets/a/", i), blob)
	}
	a.want(http.StatusNotFound, "GET", "/buckets/a/0", "")
	a.want(http.StatusOK, "GET", "/buckets/a/8", "")
	b.want(http.StatusOK, "GET", "/buckets/b/kept", "")
	large := bytes.Repeat([]byte("x"), quota+1)
	if got := a.do("PUT", "/buckets/a/large", bytes.NewReader(large)); got.code != http.StatusRequestEntityTooLarge {
		t.Errorf("a blob larger than its bucket: %+v", got)
	}
	for _, n := range []int{quota, quota + 1} {
		if got := a.do("PUT", "/buckets/a/large", unsized{bytes.NewReader(large[:n])}); got.code != http.StatusRequestEntityTooLarge {
			t.Errorf("a blob larger than its bucket, which does not say so: %+v", got)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.Metrics()...)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v: %v", err, problems)
	}
	err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP penstock_bucket_hits_total Blobs that were asked for and there.
# TYPE penstock_bucket_hits_total counter
penstock_bucket_hits_total{bucket="a"} 1
penstock_bucket_hits_total{bucket="b"} 1
# HELP penstock_bucket_misses_total Blobs that were asked for and not there.
# TYPE penstock_bucket_misses_total counter
penstock_bucket_misses_total{bucket="a"} 1
penstock_bucket_misses_total{bucket="b"} 0
# HELP penstock_bucket_sent_bytes_total Bytes of blobs that were sent.
# TYPE penstock_bucket_sent_bytes_total counter
penstock_bucket_sent_bytes_total{bucket="a"} 262144
penstock_bucket_sent_bytes_total{bucket="b"} 262144
`), "penstock_bucket_hits_total", "penstock_bucket_misses_total", "penstock_bucket_sent_bytes_total")
	if err != nil {
		t.Error(err)
	}
}

// TestCallers: each way to a bucket asks whose it is.
func TestCallers(t *testing.T) {
	l := listen(t)
	run(t, l, nil)
	with := func(token string) client { return client{t, l.Addr().String(), token} }
	with("of-c").want(http.StatusCreated, "PUT", "/buckets/b/x", "blob")
	for _, method := range []string{"PUT", "GET", "HEAD", "DELETE", "POST"} {
		with("").want(http.StatusUnauthorized, method, "/buckets/b/x", "")
		with("nobody's").want(http.StatusUnauthorized, method, "/buckets/b/x", "")
		with("of-looker").want(http.StatusForbidden, method, "/buckets/looker/x", "")
		with("of-a").want(http.StatusForbidden, method, "/buckets/b/x", "")
		with("of-b").want(http.StatusForbidden, method, "/buckets/b/x", "")
		with("of-c").want(http.StatusForbidden, method, "/buckets/none/x", "")
		if got := with("of-a").do(method, "/buckets/b/x", nil, "Penstock-Namespace", "c", passedOn, "1"); got.code != http.StatusForbidden {
			t.Errorf("%s as another namespace: %+v", method, got)
		}
	}
	for _, token := range []string{"of-c", "of-d", "admin"} {
		if got := with(token).want(http.StatusOK, "GET", "/buckets/b/x", ""); got.body != "blob" {
			t.Errorf("%s: %q", token, got.body)
		}
	}
}

// TestConflict has many put a name at once: it has one's bytes, and the others are told.
func TestConflict(t *testing.T) {
	l := listen(t)
	run(t, l, nil)
	c := client{t, l.Addr().String(), "of-a"}
	for round := range 5 {
		path := fmt.Sprint("/buckets/a/", round)
		var codes [6]int
		var group sync.WaitGroup
		for i := range codes {
			group.Go(func() { codes[i] = c.do("PUT", path, strings.NewReader(fmt.Sprint("of ", i/2))).code })
		}
		group.Wait()
		kept := c.do("GET", path, nil).body
		for i, code := range codes {
			if kept == fmt.Sprint("of ", i/2) != (code == http.StatusCreated) || code != http.StatusCreated && code != http.StatusConflict {
				t.Errorf("%q is kept: %d of %d", kept, code, i/2)
			}
		}
	}
}

// TestCutOff: of a body that does not come whole nothing is kept.
func TestCutOff(t *testing.T) {
	l := listen(t)
	s, _ := run(t, l, nil)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /buckets/a/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer of-a\r\nContent-Length: 10\r\n\r\nblob")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
		t.Errorf("%q, %v", got, err)
	}
	if stats := s.buckets["a"].Cache.Stats(); stats.Entries != 0 || stats.Bytes != 0 {
		t.Errorf("%+v", stats)
	}
}

// watched counts what the kernel is given as a file to send.
type watched struct {
	net.Listener
	files *atomic.Int64
}

type watchedConn struct {
	*net.TCPConn
	files *atomic.Int64
}

func (w watched) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return watchedConn{c.(*net.TCPConn), w.files}, nil
}

func (w watchedConn) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if _, ok := limited.R.(syscall.Conn); ok { // what net asks for
			w.files.Add(limited.N)
		}
	}
	return w.TCPConn.ReadFrom(r)
}

// TestSendfile: the kernel sends blobs, and ranges of them, but for their first bytes.
func TestSendfile(t *testing.T) {
	l := watched{listen(t), new(atomic.Int64)}
	run(t, l, nil)
	c := client{t, l.Addr().String(), "of-a"}
	const size, sniffed = 100_000, 512
	c.want(http.StatusCreated, "PUT", "/buckets/a/x", strings.Repeat("0123456789", size/10))
	c.want(http.StatusOK, "GET", "/buckets/a/x", "")
	if got := l.files.Swap(0); got != size-sniffed {
		t.Errorf("the kernel sends %d bytes of %d", got, size)
	}
	if got := c.do("GET", "/buckets/a/x", nil, "Range", "bytes=11-70010"); got.body != strings.Repeat("1234567890", 7000) {
		t.Errorf("%d bytes of a range", len(got.body))
	}
	if got := l.files.Load(); got != 70_000-sniffed {
		t.Errorf("the kernel sends %d bytes of a range", got)
	}
}

// TestNodes: each node answers for all, one that is lost loses only what it had, and one more gets its share.
func TestNodes(t *testing.T) {
	var members []fleet.Member
	var listeners []net.Listener
	for i := range 3 {
		l := listen(t)
		listeners = append(listeners, l)
		members = append(members, fleet.Member{Name: fmt.Sprint("node-", i), Address: l.Addr().String()})
	}
	all := fleet.NewMaglev(members)
	servers, stops := make([]*Server, 3), make([]func(), 3)
	for i, l := range listeners {
		servers[i], stops[i] = run(t, l, Among(members[i].Name, func() *fleet.Maglev { return all }))
	}
	at := func(i int) client { return client{t, members[i%3].Address, "of-a"} }
	const blobs = 30
	path := func(i int) string { return fmt.Sprintf("/buckets/a/%d%%2F..%%2Fx", i) }
	for i := range blobs {
		at(i).want(http.StatusCreated, "PUT", path(i), fmt.Sprint("blob ", i))
		at(i+1).want(http.StatusConflict, "PUT", path(i), "another")
	}
	entries := 0
	for _, s := range servers {
		have := s.buckets["a"].Cache.Stats().Entries
		if entries += have; have == 0 {
			t.Error("a node has nothing")
		}
	}
	if entries != blobs {
		t.Errorf("%d blobs are kept %d times", blobs, entries)
	}
	(client{t, members[0].Address, "of-c"}).want(http.StatusForbidden, "GET", path(0), "")
	stops[2]()
	for i := range blobs {
		want := http.StatusOK
		if all.Candidates(string(keyBytes("a", fmt.Sprintf("%d/../x", i))), 1)[0].Name == "node-2" {
			want = http.StatusServiceUnavailable
		}
		for n := range 2 {
			if got := at(n).do("GET", path(i), nil, "Range", "bytes=5-"); want == http.StatusOK && (got.code != http.StatusPartialContent || got.body != fmt.Sprint(i)) || want != http.StatusOK && got.code != want {
				t.Errorf("blob %d at node %d: %+v, not %d", i, n, got, want)
			}
		}
	}
}

func keyBytes(bucket, name string) []byte {
	key := keyOf(bucket, name)
	return key[:]
}

// TestOneNodeMore: of 9 nodes the ninth takes a ninth of the keys, and hardly any other moves.
func TestOneNodeMore(t *testing.T) {
	owner := func(n int) Owner {
		members := make([]fleet.Member, n)
		for i := range members {
			members[i] = fleet.Member{Name: fmt.Sprint("node-", i), Address: fmt.Sprint(i)}
		}
		maglev := fleet.NewMaglev(members)
		return Among("elsewhere", func() *fleet.Maglev { return maglev })
	}
	eight, nine := owner(8), owner(9)
	const keys = 20_000
	moved, toNew := 0, 0
	for i := range keys {
		before, _ := eight(keyOf("a", fmt.Sprint(i)))
		after, _ := nine(keyOf("a", fmt.Sprint(i)))
		if before != after {
			moved++
		}
		if after == "8" {
			toNew++
		}
	}
	t.Logf("%.1f%% of the keys move, %.1f%% to the new node", 100*float64(moved)/keys, 100*float64(toNew)/keys)
	if moved < keys*10/100 || moved > keys*14/100 || toNew < keys*10/100 {
		t.Errorf("%d of %d keys move, %d to the new node", moved, keys, toNew)
	}
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"/buckets/a/x", "/buckets//", "/buckets/a/../../x", "/buckets/a/\xff"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		bucket, name, err := parse(path)
		if err == nil && (prefix+bucket+"/"+name != path || name == "" || len(name) > maxName || strings.Contains(bucket, "/")) {
			t.Errorf("%q is taken for %q of bucket %q", path, name, bucket)
		}
	})
}
