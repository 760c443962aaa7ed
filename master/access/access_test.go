package access_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/access"
)

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// example is the nth example of a language in docs/reference/access.md.
func example(t *testing.T, language string, n int) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reference/access.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(page), "```"+language+"\n")
	if len(parts) <= n+1 {
		t.Fatalf("docs/reference/access.md has %d examples of %s", len(parts)-1, language)
	}
	text, _, _ := strings.Cut(parts[n+1], "```")
	return text
}

func newControl(t *testing.T, tokens, namespaces string) *access.Control {
	t.Helper()
	c, err := access.New(access.Config{
		Fleet: rpc.NewSecret("the fleet's"), Tokens: write(t, "tokens.yaml", tokens), Namespaces: write(t,
			"namespaces.yaml", namespaces),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func gate(c *access.Control, token, namespace, method string) (identity.Identity, error) {
	ctx, err := c.Gate(context.Background(), rpc.Call{
		Method: "/penstock.v1.Master/" + method, Token: token,
		Namespace: namespace,
	})
	if err != nil {
		return identity.Identity{}, err
	}
	return identity.From(ctx), nil
}

func TestReadmesExamples(t *testing.T) {
	c := newControl(t, example(t, "yaml", 0), example(t, "yaml", 1))
	alice, err := gate(c, "correct-horse-battery-staple", "", "Open")
	if err != nil || alice.Home() != "vision" || alice.Subject != "alice" || alice.Has(identity.Admin) {
		t.Errorf("alice: %+v, %v", alice, err)
	}
	if _, err := c.Limits(alice).MayRead("s3://data/vision/2026/*.parquet"); err != nil {
		t.Error(err)
	}
	if _, err := c.Limits(alice).MayRead("s3://data/speech/"); status.Code(err) != codes.PermissionDenied ||
		!strings.Contains(err.Error(), "s3://data/vision/") {
		t.Error(err)
	}
	sum := sha256.Sum256([]byte("a viewer's token"))
	if !strings.Contains(example(t, "yaml", 0), hex.EncodeToString(sum[:])) {
		t.Errorf("docs/reference/access.md should have the SHA-256 %x", sum)
	}
	wall, err := gate(c, "a viewer's token", "", "Observe")
	if err != nil || !wall.Sees("speech") || !wall.Sees("vision") {
		t.Errorf("the wall: %+v, %v", wall, err)
	}
	if _, err := gate(c, "a viewer's token", "", "Open"); status.Code(err) != codes.PermissionDenied ||
		!strings.Contains(err.Error(), "trainer") {
		t.Errorf("a viewer opens: %v", err)
	}
	if bob, err := gate(c, "bob-is-named-in-namespaces", "", "DeleteSession"); err != nil || !bob.Has(identity.Admin) ||
		bob.Has(identity.Worker) {
		t.Errorf("bob: %+v, %v", bob, err)
	}
}

// TestEachMethodHasARule fails if a call was added without saying whose it is.
func TestEachMethodHasARule(t *testing.T) {
	everything := identity.Anyone()
	for _, m := range pb.Master_ServiceDesc.Methods {
		if err := access.MayCall(everything, "/penstock.v1.Master/"+m.MethodName); err != nil {
			t.Errorf("%s has no rule: %v", m.MethodName, err)
		}
	}
	for _, s := range pb.Master_ServiceDesc.Streams {
		if err := access.MayCall(everything, "/penstock.v1.Master/"+s.StreamName); err != nil {
			t.Errorf("%s has no rule: %v", s.StreamName, err)
		}
	}
	for _, unknown := range []string{
		"", "/penstock.v1.Master/Shutdown",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	} {
		if err := access.MayCall(everything, unknown); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%q: %v", unknown, err)
		}
	}
}

// TestWhoMayCallWhat holds the whole table, for each role.
func TestWhoMayCallWhat(t *testing.T) {
	anybody := []string{"GetFleet", "WhoAmI"}
	viewer := append([]string{
		"GetSession", "ListSessions", "ListCheckpoints", "Observe", "ListEvents", "ListFeatures",
	}, anybody...)
	trainer := append([]string{
		"Open", "Join", "Sync", "DeleteSession", "CreateCheckpoint", "DeleteCheckpoint",
		"RestoreSession", "PutCode", "GetCode",
	}, viewer...)
	for role, want := range map[identity.Role][]string{
		"": anybody, identity.Viewer: viewer, identity.Trainer: trainer, identity.Admin: trainer,
		identity.Worker: append([]string{"SyncWorker"}, anybody...),
	} {
		may := map[string]bool{}
		for _, m := range want {
			may[m] = true
		}
		for _, m := range pb.Master_ServiceDesc.Methods {
			err := access.MayCall(identity.Identity{Namespace: "vision", Roles: []identity.Role{role}},
				"/penstock.v1.Master/"+m.MethodName)
			if (err == nil) != may[m.MethodName] || err != nil && status.Code(err) != codes.PermissionDenied {
				t.Errorf("%s, %s: %v", role, m.MethodName, err)
			}
		}
	}
}

// TestWorkersToken holds that the token of workers lets them do what a worker does, and that nobody is let in without
// one where only workers have one.
func TestWorkersToken(t *testing.T) {
	c, err := access.New(access.Config{Workers: rpc.NewSecret("the workers'"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range pb.Master_ServiceDesc.Methods {
		_, err := gate(c, "the workers'", "", m.MethodName)
		if may := slices.Contains([]string{"SyncWorker", "GetFleet", "WhoAmI"}, m.MethodName); (err == nil) != may ||
			!may && status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", m.MethodName, err)
		}
		if _, err := gate(c, "", "", m.MethodName); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s without a token: %v", m.MethodName, err)
		}
	}
}

func TestStrangersLearnNothing(t *testing.T) {
	const secret = "a-token-of-sixteen-or-more"
	c := newControl(t, "tokens: [{token: "+secret+", subject: alice, namespace: vision, roles: [admin]}]",
		"namespaces: {}")
	for _, m := range pb.Master_ServiceDesc.Methods {
		var words []string
		for _, token := range []string{"another", secret + "x", secret[1:], strings.ToUpper(secret), ""} {
			_, err := gate(c, token, "", m.MethodName)
			if status.Code(err) != codes.Unauthenticated || strings.Contains(err.Error(), "alice") ||
				strings.Contains(err.Error(), "vision") || strings.Contains(err.Error(), m.MethodName) {
				t.Errorf("%s, %q: %v", m.MethodName, token, err)
			}
			if token != "" {
				words = append(words, err.Error())
			}
		}
		for _, w := range words {
			if w != words[0] {
				t.Errorf("%s: strangers are told apart: %q", m.MethodName, words)
			}
		}
		if _, err := gate(c, secret, "speech", m.MethodName); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s in another namespace: %v", m.MethodName, err)
		}
	}
}

func TestFilesAreReadAnew(t *testing.T) {
	tokens := write(t, "tokens.yaml",
		"tokens: [{token: the-first-of-tokens, subject: a, namespace: vision, roles: [trainer]}]")
	namespaces := write(t, "namespaces.yaml", "namespaces: {vision: {datasets: ['s3://data/']}}")
	synctest.Test(t, func(t *testing.T) {
		c, err := access.New(access.Config{
			Tokens: tokens, Namespaces: namespaces,
			Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		who, err := gate(c, "the-first-of-tokens", "", "Open")
		if err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{
			tokens:     "tokens: [{token: the-second-of-tokens, subject: a, namespace: vision, roles: [trainer]}]",
			namespaces: "namespaces: {vision: {datasets: []}}",
		} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if _, err := gate(c, "the-first-of-tokens", "", "Open"); status.Code(err) != codes.Unauthenticated {
			t.Errorf("a token that was withdrawn: %v", err)
		}
		if _, err := gate(c, "the-second-of-tokens", "", "Open"); err != nil {
			t.Error(err)
		}
		if _, err := c.Limits(who).MayRead("s3://data/x/"); err == nil {
			t.Error("a right that was withdrawn is there still")
		}
	})
}

func TestMistakesInFiles(t *testing.T) {
	const rest = ", subject: a, namespace: vision, roles: [trainer]"
	for text, want := range map[string]string{
		"tokens: [{token: short" + rest +
			"}]": "has 5 characters",
		"tokens: [{subject: a, namespace: vision, roles: [trainer]}]": "want one of token and sha256",
		"tokens: [{sha256: abc" + rest +
			"}]": "64 hexadecimal digits",
		"tokens: [{token: hunter2hunter2hunter2, namespace: vision, roles: [trainer]}]": "subject: want " +
			"a name",
		"tokens: [{token: hunter2hunter2hunter2, subject: a, namespace: Vision, roles: [trainer]}]": "namespace: " +
			"want a name",
		"tokens: [{token: hunter2hunter2hunter2, subject: a, namespace: vision}]": "roles: want " +
			"some of",
		"tokens: [{token: hunter2hunter2hunter2, subject: a, namespace: vision, roles: [root]}]":   `found "root"`,
		"tokens: [{token: hunter2hunter2hunter2, subject: a, namespace: vision, roles: [worker]}]": `needs namespace "*"`,
		"tokens: [{token: hunter2hunter2hunter2" + rest + "}, {token: hunter2hunter2hunter2" + rest +
			"}]": "an earlier one's, too",
		"tokens: [{tokn: hunter2hunter2hunter2" + rest + "}]": "tokn",
		"tokens: hunter2hunter2hunter2":                       "tokens",
		"tokens: [{hunter2hunter2hunter2: x}]":                "unknown field",
		"tokens: [{token: *hunter2hunter2hunter2}]":           "alias",
		"":               "no list of tokens", // a file that is about to be written
		"# tokens of us": "no list of tokens",
	} {
		_, err := access.New(access.Config{
			Tokens: write(t, "tokens.yaml", text),
			Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"namespaces: {Vision: {}}":                      "a name has",
		"namespaces: {v: {datasets: [/data/]}}":         "want the URI of a directory",
		"namespaces: {v: {datasets: ['s3://b/*/']}}":    "want the URI of a directory",
		"namespaces: {v: {datasets: ['s3://b/../c/']}}": "want the URI of a directory",
		"namespaces: {v: {datasets: ['ftp://b/c/']}}":   "want the URI of a directory",
		"namespaces: {v: {max_sessions: -1}}":           "want 0 or more",
		"namespaces: {v: {code: sometimes}}":            "want none, by-name, which",
		"namespaces: {v: {max_weight: 0}}":              "want more than 0",
		"namespaces: {v: {max_weight: .nan}}":           "want more than 0",
		"namespaces: {v: {data: []}}":                   "data",
		"":                                              "names none",
	} {
		if _, err := access.ParseNamespaces("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestLimitsOfNobody holds that limits which would bind nobody are refused rather than left out.
func TestLimitsOfNobody(t *testing.T) {
	cfg := access.Config{
		Namespaces: write(t, "namespaces.yaml", "namespaces: {}"),
		Logger:     slog.New(slog.DiscardHandler),
	}
	if _, err := access.New(cfg); err == nil || !strings.Contains(err.Error(), "--namespaces limits nobody") {
		t.Error(err)
	}
}

func limits(t testing.TB, text string) access.Limits {
	t.Helper()
	path := write(t, "namespaces.yaml", text)
	c, err := access.New(access.Config{
		Fleet: rpc.NewSecret("x"), Namespaces: path,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.Limits(identity.Identity{Namespace: "vision", Subject: "alice", Roles: []identity.Role{identity.Admin}})
}

const vision = "namespaces: {vision: {datasets: ['s3://data/vision/', 'file:///data/vision', 's3://open'], storage: " +
	"[default, eu-west], max_sessions: 2, max_workers: 10, max_weight: 2}}"

// hostile are URIs that lie outside of vision's datasets, however they are written.
var hostile = []string{
	"s3://data/", "s3://data", "s3://data/vision2/", "s3://data/visio*/", "s3://data/*/x", "s3://data/vision*",
	"s3://data/[v]ision/", `s3://data/\vision/`, "s3://data/**",
	"s3://data/vision/../speech/", "s3://data/vision/./../speech/", "s3://data/vision/..",
	"s3://data/vision/*/../../speech/", "s3://data/vision/%2e%2e/speech/",
	"s3://data/vision/%2E%2E%2Fspeech/", "s3://data/vision/%252e%252e/speech/", `s3://data/vision/..\speech/`,
	"s3://data/vision/.%2e/x", "s3://data//vision/", "s3://DATA/vision/", "S3://data/vision/",
	"s3://data/Vision/", "s3://data/vision\x00/../x", "s3://data/vision/a\nb", "s3://user@data/vision/",
	"s3:///data/vision/", "s3://opened/x", "s3://open.evil/x", "s3://ope*/",
	"file:///data/vision/../speech/", "/data/vision/../speech/", "/data/vision/*/../../speech/", "/data/visions/",
	"/data/vision*/", "file:///data/VISION/", "file://data/vision/", "/etc/", "data/vision/",
	"https://data/vision/", "", "file:///data/vision/%2e%2e/x", "/data/vision/%2e%2e/%", "s3://data/vision/%zz/%2e./",
	"file:///data//vision/../../etc/",
}

// TestVersions: what may be read of a dataset of the hub does not depend on the version, and signed URIs are not
// repeated.
func TestVersions(t *testing.T) {
	l := limits(t, "namespaces: {vision: {datasets: ['hf://datasets/org/a', 'hf://datasets/team/', 'https://h.example/d']}}")
	for uri, want := range map[string]bool{
		"hf://datasets/org/a": true, "hf://datasets/org/a/x*.parquet": true, "hf://datasets/org/a@main/": true,
		"hf://datasets/org/a@refs/convert/parquet/x.parquet": true, "hf://datasets/team/b@v1/x": true,
		"hf://datasets/org/b": false, "hf://datasets/org/ab@main/": false, "hf://datasets/org/a@main/../b/x": false,
		"https://h.example/d/x.parquet": true, "https://H.example:443/d/x": true, "https://h.example/d/..%2fe/x": false,
		"https://h.example/e": false, "https://h.example/d/x?sig=hunter2": false,
	} {
		_, err := l.MayRead(uri)
		if (err == nil) != want || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", uri, err)
		}
	}
	pinned := "@" + strings.Repeat("a", 40) + "/x.parquet"
	if err := l.MayReadFile("hf://datasets/org/a" + pinned); err != nil {
		t.Error(err)
	}
	if l.MayReadFile("hf://datasets/org/b"+pinned) == nil {
		t.Error("a file of another dataset")
	}
}

func TestHostileURIs(t *testing.T) {
	l := limits(t, vision)
	for _, uri := range hostile {
		if d, err := l.MayRead(uri); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%q is read as of %q: %v", uri, d, err)
		}
	}
	for _, uri := range []string{
		"s3://data/vision/", "s3://data/vision", "s3://data/vision/a.parquet", "s3://data/vision/*.parquet",
		"s3://data/vision/**/x", "s3://data/vision/day=2026%2F01/", "s3://data/vision/a..b/",
		"file:///data/vision/", "/data/vision", "/data/vision/x", "/data/./vision/x/../y", "s3://open", "s3://open/x",
		"s3://data/vision//x", "s3://data/vision/{a}", "s3://data/vision/100%",
	} {
		if _, err := l.MayRead(uri); err != nil {
			t.Errorf("%q: %v", uri, err)
		}
	}
	for _, uri := range []string{
		"s3://data/speech/x.parquet", "s3://data/vision2/x", "s3://data/vision/../x",
		"file:///data/visions/x", "",
	} {
		if l.MayReadFile(uri) == nil {
			t.Errorf("file %q", uri)
		}
	}
	nothing := limits(t, "namespaces: {}")
	if _, err := nothing.MayRead("s3://data/vision/"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a namespace that the file lacks: %v", err)
	}
}

// FuzzURIs holds that whatever may be read lies below a dataset: by its canonical form, and by that decoded as often as
// anybody might.
func FuzzURIs(f *testing.F) {
	for _, uri := range hostile {
		f.Add(uri)
	}
	f.Add("s3://data/vision/x")
	l := limits(f, vision)
	f.Fuzz(func(t *testing.T, uri string) {
		dataset, err := l.MayRead(uri)
		if err != nil {
			return
		}
		canonical, err := storage.Canonical(uri)
		if err != nil || !strings.HasPrefix(canonical+"/", dataset) {
			t.Fatalf("%q is %q, and not below %q: %v", uri, canonical, dataset, err)
		}
		depth := 0
		for _, level := range strings.Split(strings.NewReplacer("%2f", "/", "%2F", "/", "%2e", ".", "%2E", ".", `\`,
			"/").Replace(strings.TrimPrefix(canonical+"/", dataset)), "/") {
			if level == ".." {
				depth--
			} else if level != "" && level != "." {
				depth++
			}
			if depth < 0 {
				t.Fatalf("%q leads out of %q", uri, dataset)
			}
		}
	})
}

func TestProfilesAndQuotas(t *testing.T) {
	l := limits(t, vision)
	for profile, ok := range map[string]bool{
		"": true, "default": true, "EU_West": true, "eu-west": true, "eu": false,
		"us": false, "eu-west ": false,
	} {
		if err := l.MayUse(profile); (err == nil) != ok || err != nil &&
			!strings.Contains(err.Error(), "default, eu-west") {
			t.Errorf("%q: %v", profile, err)
		}
	}
	for _, c := range []struct {
		used   access.Usage
		want   int
		weight float64
		err    string
	}{
		{access.Usage{}, 10, 1, ""},
		{access.Usage{Sessions: 1, MinWorkers: 4}, 6, 1, ""},
		{access.Usage{Sessions: 1, MinWorkers: 4}, 7, 1, "max_workers"},
		{access.Usage{Sessions: 1, MinWorkers: 40}, 0, 1, ""},
		{access.Usage{Sessions: 2}, 0, 1, "max_sessions"},
		{access.Usage{}, 0, 2, ""},
		{access.Usage{}, 0, 2.5, "max_weight"},
	} {
		err := l.Admit(c.used, c.want, c.weight)
		if (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) ||
			status.Code(err) != codes.FailedPrecondition) {
			t.Errorf("%+v and %d: %v", c.used, c.want, err)
		}
	}
	if err := (access.Limits{}).Admit(access.Usage{Sessions: 1e6, MinWorkers: 1e6}, 1e6, 1e6); err != nil {
		t.Errorf("without bounds: %v", err)
	}
}

func TestOwners(t *testing.T) {
	alice := identity.Identity{Namespace: "vision", Subject: "alice", Roles: []identity.Role{identity.Trainer}}
	boss := identity.Identity{Namespace: "vision", Subject: "boss", Roles: []identity.Role{identity.Admin}}
	for owner, ok := range map[string]bool{"alice": true, "": true, "bob": false} {
		if err := access.MayDelete(alice, owner, "delete it"); (err == nil) != ok {
			t.Errorf("%q: %v", owner, err)
		}
		if err := access.MayDelete(boss, owner, "delete it"); err != nil {
			t.Errorf("an administrator, %q: %v", owner, err)
		}
	}
}
