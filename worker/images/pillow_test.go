package images

import (
	"bytes"
	"encoding/json"
	"image"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pillowViews lets testdata/write.py write pictures, and what Pillow makes of them and of those of Go's own tests.
func pillowViews(t *testing.T) string {
	t.Helper()
	if err := exec.Command("python3", "-c", "import PIL").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI needs python3 with Pillow: %v", err)
		}
		t.Skipf("needs python3 with Pillow: %v", err)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, sources := t.TempDir(), filepath.Join(strings.TrimSpace(string(root)), "src", "image")
	args := []string{
		"testdata/write.py", dir, filepath.Join(sources, "testdata"),
		filepath.Join(sources, "png", "testdata", "pngsuite"), os.Getenv("PENSTOCK_PHOTOS"),
	}
	if out, err := exec.Command("python3", args...).CombinedOutput(); err != nil {
		t.Fatalf("testdata/write.py: %v\n%s", err, out)
	}
	return dir
}

// pillowView is one of FILE.views.json.
type pillowView struct {
	Part          [4]int
	Size          [2]int
	Gray, Upright bool
	Pixels        string
}

// TestPillow makes parts of pictures, resized, as Pillow does: the same bytes.
func TestPillow(t *testing.T) {
	dir := pillowViews(t)
	lists, err := filepath.Glob(filepath.Join(dir, "*.views.json"))
	if err != nil || len(lists) < 100 {
		t.Fatalf("%d lists of views: %v", len(lists), err)
	}
	s := &Studio{}
	for _, path := range lists {
		file := strings.TrimSuffix(path, ".views.json")
		if strings.Contains(file, "progressive.truncated") {
			continue // it lacks its last scans: libjpeg smooths its blocks
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var views []pillowView
		if err := json.Unmarshal(text, &views); err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, v := range views {
				compareView(t, s, file, v)
			}
		})
	}
}

func compareView(t *testing.T, s *Studio, file string, v pillowView) {
	t.Helper()
	encoded, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(filepath.Dir(file), v.Pixels))
	if err != nil {
		t.Fatal(err)
	}
	r := &Recipe{Format: Any, Gray: v.Gray, Upright: v.Upright}
	width, height, turn, err := s.open(r, encoded)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, v.Size[0]*v.Size[1]*r.Channels())
	shown := view{
		box:  image.Rect(v.Part[0], v.Part[1], v.Part[2], v.Part[3]),
		size: image.Pt(v.Size[0], v.Size[1]), window: image.Rect(0, 0, v.Size[0], v.Size[1]),
	}
	if v.Upright {
		shown = r.view(width, height, turn, Choice{})
	}
	if err := s.show(r, encoded, image.Pt(width, height), shown, Room{Most: 1 << 30}, Canvas{Bytes: got}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		differ := 0
		for i := range got {
			if got[i] != want[i] {
				differ++
			}
		}
		t.Errorf("%+v: %d of %d bytes differ", v, differ, len(got))
	}
}
