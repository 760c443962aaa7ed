package spec

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

const twoOps = head + `
features: [{dense: int_1}, {dense: int_2}]
transforms:
- {op: fill_null, in: int_1, value: 0}
- {op: log1p, in: [int_1, int_2]}
`

func TestAPinnedSpecIsReadAsItWasWritten(t *testing.T) {
	s := mustParse(t, twoOps)
	s.Pinned = &pb.Pinned{
		Ops:       map[string]uint32{"log1p": 2, "fill_null": 1},
		Tables:    []*pb.PinnedTable{{Uri: "s3://b/items.parquet", Size: 7, Etag: "3b-18", Digest: "sha256:00"}},
		Functions: map[string]string{"m:f": "sha256:01"},
	}
	text, err := Format(s)
	if err != nil {
		t.Fatal(err)
	}
	if again := mustParse(t, string(text)); !proto.Equal(s, again) {
		t.Errorf("written as\n%s", text)
	}
	other := proto.CloneOf(s)
	other.Pinned.Ops = map[string]uint32{"log1p": 3, "clamp": 1, "fill_null": 1}
	if got := strings.Join(Diff(s, other), "; "); got !=
		"pinned.ops.clamp: nothing and 1; pinned.ops.log1p: 2 and 3" {
		t.Error(got)
	}
	wrong := `{"pinned": {"ops": {"log1p": "many", "clamp": 1, "clamp": 2}, "tables": [{"uri": 7}]}}`
	if _, err := Parse([]byte(wrong)); err == nil || !strings.Contains(err.Error(), "pinned.ops.log1p") ||
		!strings.Contains(err.Error(), "pinned.ops.clamp: stands here twice") ||
		!strings.Contains(err.Error(), "pinned.tables[0].uri") {
		t.Error(err)
	}
}

func TestOpsOfOtherVersionsThanPinnedAreRefused(t *testing.T) {
	s, given := mustParse(t, twoOps), Given{Schema: newSchema(), Catalog: newCatalog()}
	p, err := Resolve(s, given)
	if err != nil {
		t.Fatal(err)
	}
	pinned := PinTo(s, p)
	if _, err := Resolve(pinned, given); err != nil {
		t.Error(err)
	}
	pinned.Pinned.Ops["log1p"] = 1
	delete(pinned.Pinned.Ops, "fill_null")
	_, err = Resolve(pinned, given)
	_, _, served := ResolveServed(pinned, given, Served{})
	for _, err := range []error{err, served} {
		if err == nil || err.Error() != "transforms[0]: runs op fill_null of version 1, and the spec is pinned without "+
			"it; pin the spec anew\ntransforms[1]: op log1p is of version 2 here, and the spec is pinned to version 1; use "+
			"the release, or the ops, of the training, or train with what is here and pin the spec anew" {
			t.Error(err)
		}
	}
}

func TestFunctionsByNameAreThoseThatAreShownPinned(t *testing.T) {
	s := mustParse(t, head+`
features: [{padded: tokens, length: 3}]
transforms: [{op: python, call: "m:f", in: country, out: {tokens: list<int32>}}]
`)
	mark := &pb.MarkedFunction{
		Function: proto.CloneOf(s.GetTransforms()[0].GetPython()), Results: s.GetTransforms()[0].GetOuts(),
	}
	has := func(sum byte) *pb.CallsReply {
		return &pb.CallsReply{
			Functions: []*pb.MarkedFunction{mark}, Identity: &pb.Code{
				Digest: []byte{sum}, Functions: []*pb.NamedDigest{{Name: "m:f", Digest: []byte{sum}}},
			},
		}
	}
	trained, err := Pin(s, has(7))
	if err != nil {
		t.Fatal(err)
	}
	trained.Transforms[0].Python.Name = "f" // as Python says, and no text
	pinned := PinTo(trained, &pb.Program{})
	if _, err := Format(pinned); err != nil {
		t.Error(err)
	}
	if _, err := Pin(pinned, has(7)); err != nil {
		t.Error(err)
	}
	_, err = Pin(pinned, has(8))
	if err == nil || !strings.Contains(err.Error(), "m:f is sha256:08 here, and the spec is pinned to sha256:07") {
		t.Error(err)
	}
}

// The session's spec has written out what nobody gave.
func TestThePinnedSpecOfASession(t *testing.T) {
	s, _, err := Settle(mustParse(t, twoOps), Opened{World: 2})
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := PinnedSession(&pb.Session{Spec: s, DefaultLastBatch: true})
	if err != nil {
		t.Fatal(err)
	}
	pinned.Pinned = nil
	if want := mustParse(t, twoOps); !proto.Equal(pinned, want) {
		t.Errorf("got %v, want %v", pinned, want)
	}
}
