package master

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestTextsAreParsedOnce(t *testing.T) {
	s := &specTexts{}
	text := func(seed int) string {
		return fmt.Sprintf("{dataset: {uri: d}, features: [{dense: x}], batch_size: 8, seed: %d}", seed)
	}
	for seed := range 2 * textsKept {
		first, err := s.parse(text(seed), "/home/a")
		if err != nil {
			t.Fatal(err)
		}
		want := proto.CloneOf(first)
		first.BatchSize = 9 // is the caller's
		again, err := s.parse(text(seed), "/home/a")
		if err != nil || !proto.Equal(again, want) || again.GetDataset().GetUri()[0] != "/home/a/d" ||
			again.GetSeed() != int64(seed) {
			t.Fatalf("the second time %v, %v, want %v", again, err, want)
		}
	}
	if len(s.known) != textsKept {
		t.Errorf("it knows %d texts, want %d", len(s.known), textsKept)
	}
	if other, err := s.parse(text(2*textsKept-1), "/home/b"); err != nil ||
		other.GetDataset().GetUri()[0] != "/home/b/d" {
		t.Errorf("in another directory: %v, %v", other, err)
	}
	known := len(s.known)
	for range 2 {
		if _, err := s.parse("features: 7", ""); err == nil {
			t.Error("a spec with mistakes is none")
		}
	}
	if len(s.known) != known {
		t.Error("a text with mistakes is remembered")
	}
}
