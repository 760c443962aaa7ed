package master_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestOpenTakesText(t *testing.T) {
	m := single(t)
	dir := dataset(t, 3)
	yaml := "dataset: {uri: file://" + dir +
		"/}\nfeatures: [{dense: x}, {label: label}]\nbatch_size: 4\nshuffle: true\nseed: 3\n"
	json := fmt.Sprintf(
		`{"dataset": {"uri": %q}, "features": [{"dense": "x"}, {"label": "label"}], "batch_size": 4, "shuffle": true, "seed": 3}`, dir+"/")
	tests := []struct {
		name string
		req  *pb.OpenRequest
		code codes.Code
		want []string
	}{
		{"YAML", &pb.OpenRequest{Session: "yaml", SpecText: yaml}, codes.OK, nil},
		{"the same as a message", &pb.OpenRequest{Session: "yaml", Spec: newSpec(dir)}, codes.OK, nil},
		{"JSON, and a path", &pb.OpenRequest{Session: "json", SpecText: json, WorldSize: 3}, codes.OK, nil},
		{"another spec", &pb.OpenRequest{Session: "yaml", SpecText: strings.Replace(yaml, "batch_size: 4",
			"batch_size: 5", 1)}, codes.AlreadyExists, []string{"batch_size: 4 and 5"}},
		{
			"both", &pb.OpenRequest{Session: "new", SpecText: yaml, Spec: newSpec(dir)}, codes.InvalidArgument,
			[]string{"send one of them"},
		},
		{
			"all mistakes of form", &pb.OpenRequest{Session: "new", SpecText: "features: 7\nbatchsize: 3\n"},
			codes.InvalidArgument,
			[]string{"features: found", "nearest: batch_size"},
		},
		{
			"all mistakes of meaning", &pb.OpenRequest{Session: "new", SpecText: "dataset: {uri: " + dir +
				"/}\nfeatures: [{dense: z}]\nbatch_size: -1\nfilter: labl == 1"},
			codes.InvalidArgument,
			[]string{"features[0]", "batch_size: found -1", "nearest: label"},
		},
		{"no YAML", &pb.OpenRequest{Session: "new", SpecText: "[: {"}, codes.InvalidArgument, []string{"line 1"}},
		{
			"a long working directory", &pb.OpenRequest{
				Session:  "new",
				SpecText: strings.Replace(yaml, "file://"+dir+"/", "[a, b, c, d]", 1), WorkingDir: "/" +
					strings.Repeat("x", 1<<18),
			},
			codes.InvalidArgument,
			[]string{"1048580 bytes more with the working directory before each"},
		},
		{
			"too long", &pb.OpenRequest{Session: "new", SpecText: yaml + strings.Repeat("#", 1<<20)},
			codes.InvalidArgument,
			[]string{"1048576"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := m.Open(t.Context(), test.req)
			if status.Code(err) != test.code {
				t.Fatalf("%v, want %v", err, test.code)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nlacks %q", err, want)
				}
			}
			if err == nil && (got.GetFiles() != 3 || got.GetSpec().GetSeed() != 3 ||
				got.GetWorldSize() != max(1, test.req.GetWorldSize())) {
				t.Errorf("opened %v", got)
			}
		})
	}
}

// A relative path that happens to exist where the master runs is refused all the same.
func TestOpenRefusesRelativePaths(t *testing.T) {
	m := single(t)
	t.Chdir(dataset(t, 2))
	here, err := os.Getwd()
	check(t, err)
	text := func(uris string) string {
		return "dataset: {uri: " + uris + "}\nfeatures: [{dense: x}]\nbatch_size: 4\n"
	}
	relative := newSpec("")
	relative.Dataset.Uri = []string{"./day=0/"}
	for _, req := range []*pb.OpenRequest{
		{Session: "text", SpecText: text("[./day=0/, " + filepath.Join(here, "day=1") + "/]")},
		{Session: "message", Spec: relative},
	} {
		_, err := m.Open(t.Context(), req)
		if status.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), `dataset.uri: found "./day=0/", which is relative`) ||
			strings.Contains(err.Error(), "day=1") {
			t.Errorf("%s: %v", req.GetSession(), err)
		}
	}
}

// A trainer's text means its own working directory, as a spec file of the command line does.
func TestOpenResolvesPathsOfText(t *testing.T) {
	m := single(t)
	dir := dataset(t, 2)
	text := func(uris string) string {
		return "dataset: {uri: " + uris + "}\nfeatures: [{dense: x}]\nbatch_size: 4\n"
	}
	got, err := m.Open(t.Context(), &pb.OpenRequest{
		Session: "relative", SpecText: text("[./day=0/, ../" + filepath.Base(dir) + "/day=1/*.parquet, file://" +
			dir + "/day=1/]"), WorkingDir: dir,
	})
	check(t, err)
	want := []string{dir + "/day=0/", dir + "/day=1/*.parquet", "file://" + dir + "/day=1/"}
	if uris := got.GetSpec().GetDataset().GetUri(); !slices.Equal(uris, want) {
		t.Errorf("opened %q, want %q", uris, want)
	}
	for _, workingDir := range []string{"", "here"} {
		req := &pb.OpenRequest{Session: "new", SpecText: text("day=0/"), WorkingDir: workingDir}
		if _, err := m.Open(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("working directory %q: %v", workingDir, err)
		}
	}
}
