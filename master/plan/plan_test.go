package plan_test

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/penstock-ml/penstock/master/plan"
)

func TestDigest(t *testing.T) {
	defaults := plan.Config{}.Digest()
	if !bytes.Equal(defaults, plan.ConfigFromProto(plan.Config{}.Proto()).Digest()) {
		t.Error("a configuration with its defaults written out has another digest")
	}
	// Checkpoints bear it: it may only change along with what it names.
	if got, want := hex.EncodeToString(
		defaults), "4bab2de5161822e775bfaeb0cdd0b47d60a311bd5bc3084821f5c478f27b91e4"; got != want {
		t.Errorf("the digest of the defaults is %s, want %s", got, want)
	}
	seen := map[string]plan.Config{string(defaults): {}}
	for _, c := range []plan.Config{
		{BlockBytes: 9}, {FirstBlockBytes: 9}, {BlockFiles: 9}, {ShardBytes: 9}, {WindowBytes: 9},
	} {
		if other, ok := seen[string(c.Digest())]; ok {
			t.Errorf("%+v and %+v have the same digest", c, other)
		}
		seen[string(c.Digest())] = c
	}
}
