package storage

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestStores holds what the table takes of a store: a scheme of its own, a profile or none, and that it runs the suite.
func TestStores(t *testing.T) {
	schemes := make(map[string]string)
	for _, s := range stores() {
		for _, scheme := range s.Schemes {
			if other, double := schemes[scheme]; double {
				t.Errorf("%s:// is a scheme of %s and %s", scheme, other, s.Name)
			}
			schemes[scheme] = s.Name
			_, err := s.Canonical(scheme + "://")
			if err != nil && !strings.Contains(err.Error(), scheme+"://") {
				t.Errorf("%s: the error does not repeat the URI: %v", s.Name, err)
			}
		}
		if (s.Profile == nil) == (s.Backend == nil) {
			t.Errorf("%s: want either a profile or a backend", s.Name)
		}
		if !runsSuite(t, s.Name) {
			t.Errorf("%s: no test in internal/storage/%s runs storagetest.Run", s.Name, s.Name)
		}
		if s.Profile == nil {
			continue
		}
		p := s.Profile()
		if err := yaml.UnmarshalWithOptions([]byte("type: "+s.Name), p, yaml.Strict()); err != nil {
			t.Errorf("%s: its profile has no field for a type: %v", s.Name, err)
		}
		if known, err := setField(p, "NO_SUCH_FIELD", "x"); known || err != nil {
			t.Errorf("%s: an unknown field: %v, %v", s.Name, known, err)
		}
		for field := range reflect.TypeOf(p).Elem().Fields() {
			tag := field.Tag.Get("yaml")
			if known, err := setField(p, strings.ToUpper(tag), "true"); tag == "" || known != (tag != "type") || err != nil {
				t.Errorf("%s: field %s, by its tag %q: %v, %v", s.Name, field.Name, tag, known, err)
			}
		}
		if err := s.Profile().Validate(); err != nil {
			t.Errorf("%s: an empty profile: %v", s.Name, err)
		}
	}
}

func runsSuite(t *testing.T, folder string) bool {
	t.Helper()
	tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tests {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("storagetest.Run(")) {
			return true
		}
	}
	return false
}
