package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDownload reads a file by a store and without one, and counts what was read.
func TestDownload(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data.bin"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	run := func(args ...string) (*spent, error) {
		cmd := downloadCommand()
		out := &bytes.Buffer{}
		cmd.SetOut(out)
		cmd.SetArgs(append(args, "--size=1000", "--bytes=5000", "--passes=1"))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			return nil, err
		}
		s := &spent{}
		return s, json.Unmarshal(out.Bytes(), s)
	}
	for _, args := range [][]string{
		{"file://" + dir + "/data.bin", "--range=300"},
		{"--plain", server.URL + "/data.bin", "--range=300"},
	} {
		if s, err := run(args...); err != nil || s.Bytes != 16*300 {
			t.Errorf("%v: %+v, %v", args, s, err)
		}
	}
	for want, args := range map[string][]string{
		"--range":       {"file://" + dir + "/data.bin", "--range=1001"},
		"nothing found": {"file://" + dir + "/none.bin", "--range=300"},
		"404":           {"--plain", server.URL + "/none.bin", "--range=300"},
	} {
		if _, err := run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
