package code_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
)

func random(n int) []byte {
	out := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = rng.Read(out)
	return out
}

func identity() *pb.Code { return &pb.Code{Digest: make([]byte, 32)} }

func TestPartsAreTheWhole(t *testing.T) {
	for _, n := range []int{1, code.PartBytes - 1, code.PartBytes, code.PartBytes + 1, 3 * code.PartBytes} {
		data := random(n)
		stored := code.Of(data, identity())
		var got []byte
		parts := 0
		for p := range code.Parts(stored, data) {
			if err := code.CheckPart(p); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
			if p.GetOffset() != int64(len(got)) {
				t.Errorf("%d bytes: a part at %d after %d bytes", n, p.GetOffset(), len(got))
			}
			got = append(got, p.GetData()...)
			parts++
		}
		if !bytes.Equal(got, data) || parts != code.Count(int64(n)) {
			t.Errorf("%d bytes: %d parts of %d bytes, of %d parts", n, parts, len(got), code.Count(int64(n)))
		}
		if err := errors.Join(code.Check(stored), code.CheckWhole(stored, got)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		got[n/2]++
		if code.CheckWhole(stored, got) == nil {
			t.Errorf("%d bytes: others are taken for them", n)
		}
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	good := code.Of(random(10), identity())
	for want, change := range map[string]func(*pb.StoredCode){
		"SHA-256 has 31 bytes": func(c *pb.StoredCode) { c.Sha256 = c.Sha256[:31] },
		"has 0 bytes":          func(c *pb.StoredCode) { c.Size = 0 },
		"has 16777217 bytes":   func(c *pb.StoredCode) { c.Size = code.MaxBytes + 1 },
		"digest of 0 bytes":    func(c *pb.StoredCode) { c.Identity = nil },
		"have the functions import less": func(c *pb.StoredCode) {
			c.Identity.Distributions = []string{strings.Repeat("x", 64<<10)}
		},
	} {
		c := proto.CloneOf(good)
		change(c)
		if err := code.Check(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	part := &pb.CodePart{Sha256: good.GetSha256(), Size: 10, Data: random(10)}
	for name, change := range map[string]func(*pb.CodePart){
		"no hash":    func(p *pb.CodePart) { p.Sha256 = nil },
		"too large":  func(p *pb.CodePart) { p.Size = 1 << 40 },
		"beyond":     func(p *pb.CodePart) { p.Offset = code.PartBytes },
		"before":     func(p *pb.CodePart) { p.Offset = -code.PartBytes },
		"between":    func(p *pb.CodePart) { p.Offset = 5; p.Data = p.Data[:5] },
		"too short":  func(p *pb.CodePart) { p.Data = p.Data[:9] },
		"too long":   func(p *pb.CodePart) { p.Data = random(11) },
		"without it": func(p *pb.CodePart) { p.Data = nil },
	} {
		p := proto.CloneOf(part)
		change(p)
		if code.CheckPart(p) == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
}

func TestNeed(t *testing.T) {
	sum := code.Of(random(3), nil).GetSha256()
	err := fmt.Errorf("open: %w", code.Needed(sum, "need it"))
	if !bytes.Equal(code.Need(err), sum) {
		t.Errorf("%v asks for %x", err, code.Need(err))
	}
	for _, other := range []error{nil, errors.New("no status")} {
		if code.Need(other) != nil {
			t.Errorf("%v asks for code", other)
		}
	}
}
