package rpc_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-ml/penstock/internal/rpc"
)

func TestSecretNeverPrints(t *testing.T) {
	const text = "hunter2"
	s := rpc.NewSecret(text)
	cfg := rpc.Config{Token: s}
	hidden := struct{ inner rpc.Config }{cfg}
	for _, v := range []any{
		s, &s, cfg, &cfg, hidden, &hidden,
		[]rpc.Secret{s},
		map[string]rpc.Secret{"a": s},
		fmt.Errorf("with %v", cfg),
	} {
		var logged bytes.Buffer
		slog.New(slog.NewTextHandler(&logged, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&logged, nil)).Info("m", "v", v)
		encoded, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		printed := logged.String() + string(encoded)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p"} {
			printed += fmt.Sprintf(verb, v)
		}
		for _, bad := range []string{text, fmt.Sprintf("%x", text), fmt.Sprintf("%X", text)} {
			if strings.Contains(printed, bad) {
				t.Errorf("%T prints the secret:\n%s", v, printed)
			}
		}
	}
	if s.Reveal() != text || fmt.Sprint(s) != "(secret)" || fmt.Sprint(rpc.Secret{}) != "" ||
		!rpc.NewSecret("").IsZero() || s.IsZero() {
		t.Error("a secret must tell whether it is there, and reveal itself when asked")
	}
}

func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{
		" abc\n": "abc", "a-b_c.d=": "a-b_c.d=", "\n": "", "a b": "",
		"a\nb c": "", "ä": "", "new\n\nold\n": "new",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := rpc.ReadSecret(path)
		if (err == nil) != (want != "") || s.Reveal() != want {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && (!strings.Contains(err.Error(), path) || strings.Contains(err.Error(), text) && text != "\n") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := rpc.ReadSecret(path + "x"); err == nil {
		t.Error("no error without the file")
	}
}

// TestSecretIsReplaced holds that a secret follows its file, and that each of several is taken.
func TestSecretIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		set("old")
		s, err := rpc.ReadSecret(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			text, shown        string
			takesOld, takesNew bool
		}{
			{"old\nnew\n", "old", true, true},
			{"new\nold\n", "new", true, true},
			{"not a secret", "new", true, true},
			{"new", "new", false, true},
		} {
			set(step.text)
			time.Sleep(time.Second)
			if s.Reveal() != step.shown || s.Takes("old") != step.takesOld || s.Takes("new") != step.takesNew ||
				s.Takes("") {
				t.Errorf("%q: shows %q, takes old: %v, new: %v", step.text, s.Reveal(), s.Takes("old"), s.Takes("new"))
			}
		}
	})
}
