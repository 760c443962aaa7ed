package reload_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-ml/penstock/internal/reload"
)

func TestFollowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	set := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		parses := 0
		parse := func(text []byte) (string, error) {
			parses++
			if strings.HasPrefix(string(text), "bad") {
				return "", errors.New("it is bad")
			}
			return string(text), nil
		}
		var refused []string
		set("bad")
		if _, err := reload.Open(path, parse, nil); err == nil {
			t.Fatal("no error of a file that cannot be parsed")
		}
		set("one")
		f, err := reload.Open(path, parse, func(err error) { refused = append(refused, err.Error()) })
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			text string
			wait time.Duration
			want string
		}{
			{"two", 0, "one"},
			{"two", time.Second, "two"},
			{"bad", time.Second, "two"},
			{"bad", time.Second, "two"},
			{"three", time.Second, "three"},
		} {
			set(step.text)
			time.Sleep(step.wait)
			if got := f.Get(); got != step.want {
				t.Errorf("the file says %q: %q, want %q", step.text, got, step.want)
			}
		}
		if len(refused) != 1 || !strings.Contains(refused[0], "it is bad; what the file said before stays in force") ||
			parses != 5 {
			t.Errorf("%q, %d parses", refused, parses)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(time.Second)
			if got := f.Get(); got != "three" {
				t.Errorf("%q without the file", got)
			}
		}
		if len(refused) != 2 {
			t.Errorf("%q", refused)
		}
	})
	if _, err := reload.Open(path, func([]byte) (int, error) { return 0, nil }, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := os.WriteFile(path, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := reload.Open(path, func([]byte) (int, error) { return 0, nil }, nil); err == nil ||
		!strings.Contains(err.Error(), "it may have") {
		t.Error(err)
	}
}

// TestWaitsForTheWriter holds that a file which is being written is not taken, whatever it says so far.
func TestWaitsForTheWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	synctest.Test(t, func(t *testing.T) {
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Now(), time.Now()); err != nil { // the bubble's time
				t.Fatal(err)
			}
		}
		write("s3://data/vision/")
		f, err := reload.Open(path, func(text []byte) (string, error) { return string(text), nil }, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, half := range []string{"", "s3://data/", "s3://data/spee"} {
			write(half)
			time.Sleep(time.Second / 2)
			if got := f.Get(); got != "s3://data/vision/" {
				t.Errorf("half a file is taken: %q", got)
			}
			time.Sleep(time.Second / 4)
		}
		write("s3://data/speech/")
		time.Sleep(time.Second)
		if got := f.Get(); got != "s3://data/speech/" {
			t.Errorf("the whole file is not taken a second later: %q", got)
		}
	})
}
