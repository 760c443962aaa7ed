package plan

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// A fingerprint tells which file of a listing differs, in 64 bytes, without having the other listing. Each file is a
// number a, a hash of its URI, and a number v, a hash of what it contains. Of both listings there are the sums of v and
// of a*v, modulo a prime. Where one file was changed (or added, from v = 0, or removed, to it), the first differs by
// v's difference, the second by a times that: their quotient is a, which names the file. Sums are kept in some buckets,
// by a, so that several files can be told.

const (
	prime   = 1<<61 - 1
	buckets = 4
)

// Fingerprint is what explains how a spec, its files and how they are cut differ from others.
func Fingerprint(s *pb.Spec, files []*pb.File, bytes int64, cfg Config) *pb.Fingerprint {
	f := &pb.Fingerprint{
		Spec: spec.Fingerprint(s), Files: int64(len(files)), Bytes: bytes, Listing: make([]uint64, 2*buckets),
		Planner: cfg.Proto(), PlannerVersion: Version,
	}
	for _, file := range files {
		name, content := numbersOf(file)
		sums := f.Listing[2*(name%buckets):][:2]
		sums[0] = add(sums[0], content)
		sums[1] = add(sums[1], product(name, content))
	}
	return f
}

// numbersOf are two hashes of a file, below the prime: of its URI, and of URI, size and ETag.
func numbersOf(f *pb.File) (name, content uint64) {
	h := sha256.New()
	writeText(h, f.GetUri())
	name = binary.LittleEndian.Uint64(h.Sum(nil)) % prime
	writeUint(h, uint64(f.GetSize()))
	writeText(h, f.GetEtag())
	writeTold(h, f)
	return name, binary.LittleEndian.Uint64(h.Sum(nil)) % prime
}

// FileDifferences says how the files of a session differ from those that another fingerprint tells of.
func FileDifferences(then, now *pb.Fingerprint, files []*pb.File) string {
	var out []string
	if a, b := then, now; a.GetFiles() != b.GetFiles() || a.GetBytes() != b.GetBytes() {
		out = append(out, fmt.Sprintf("then %d files of %d bytes, now %d of %d",
			a.GetFiles(), a.GetBytes(), b.GetFiles(), b.GetBytes()))
	}
	if len(then.GetListing()) != 2*buckets || len(now.GetListing()) != 2*buckets {
		return strings.Join(out, "; ")
	}
	changed := make(map[uint64]uint64) // by a: v's difference
	gone := 0
	for i := range buckets {
		d0 := add(now.Listing[2*i], prime-then.Listing[2*i]%prime)
		d1 := add(now.Listing[2*i+1], prime-then.Listing[2*i+1]%prime)
		if d0 != 0 {
			changed[product(d1, inverse(d0))] = d0
			gone++
		}
	}
	for _, f := range files {
		name, content := numbersOf(f)
		d, found := changed[name]
		if !found {
			continue
		}
		gone--
		if d == content {
			out = append(out, fmt.Sprintf("%s was added", f.GetUri()))
		} else {
			out = append(out, fmt.Sprintf("%s was changed", f.GetUri()))
		}
	}
	if gone > 0 {
		out = append(out, "files are gone, or more differ than can be named")
	}
	return strings.Join(out, "; ")
}

// PlannerDifferences says how two fingerprints' planners differ.
func PlannerDifferences(then, now *pb.Fingerprint) string {
	var out []string
	if a, b := then.GetPlannerVersion(), now.GetPlannerVersion(); a != b {
		out = append(out, fmt.Sprintf("planner version: %d and %d", a, b))
	}
	if then.GetPlanner() == nil || now.GetPlanner() == nil {
		return strings.Join(out, "; ")
	}
	a, b := then.Planner.ProtoReflect(), now.Planner.ProtoReflect()
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if x, y := a.Get(field), b.Get(field); !x.Equal(y) {
			out = append(out, fmt.Sprintf("%s: %d and %d", field.Name(), x.Int(), y.Int()))
		}
	}
	return strings.Join(out, "; ")
}

func add(a, b uint64) uint64 { return (a%prime + b%prime) % prime }

func product(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return bits.Rem64(hi, lo, prime)
}

// inverse is the number that makes 1 with a: a to the power of the prime less 2.
func inverse(a uint64) uint64 {
	out := uint64(1)
	for e := uint64(prime - 2); e > 0; e >>= 1 {
		if e&1 == 1 {
			out = product(out, a)
		}
		a = product(a, a)
	}
	return out
}
