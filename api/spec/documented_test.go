package spec

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestTheExampleOfTheReferenceResolves(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/spec.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no example")
	}
	s := mustParse(t, text)
	free := proto.CloneOf(s)
	free.Pinned = nil // to versions of the ops that there are
	p, err := Resolve(free, Given{Schema: newSchema(), Catalog: newCatalog()})
	if err != nil {
		t.Fatal(err)
	}
	var tensors []string
	for _, o := range p.GetOutputs() {
		tensors = append(tensors, o.GetName())
	}
	if got := strings.Join(tensors,
		" "); got != "label dense cat_0 cat_0_x_cat_1 words_id country_id age_bucket country photo cat_0_scores cat_1 tokens" {
		t.Errorf("got %s", got)
	}
	for _, name := range fieldNames(s.ProtoReflect().Descriptor().Fields()) {
		if !strings.Contains(text, name+":") || !strings.Contains(string(page), "| `"+name) {
			t.Errorf("the page says nothing about %s", name)
		}
	}
	formatted, err := Format(s)
	if err != nil {
		t.Fatal(err)
	}
	if again := mustParse(t, string(formatted)); !proto.Equal(s, again) {
		t.Errorf("written as\n%s", formatted)
	}
}
