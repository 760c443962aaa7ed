package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// Order returns the indices of files in the order in which an epoch reads them: the listing's, or if shuffle is
// set, ascending by a hash of seed, epoch and URI.
func Order(files []*pb.File, seed int64, shuffle bool, epoch uint32) []int {
	order := make([]int, len(files))
	for i := range order {
		order[i] = i
	}
	if !shuffle {
		return order
	}
	keys := make([]uint64, len(files))
	for i, f := range files {
		keys[i] = hash('f', seed, epoch, f.GetUri(), 0)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(keys[a], keys[b]), cmp.Compare(a, b))
	})
	return order
}

// Blocks cuts an epoch's order of files into blocks: the next files up to the configured bytes by listed size,
// at least one.
func Blocks(cfg Config, files []*pb.File, order []int) [][]int {
	cfg = cfg.withDefaults()
	maxBytes := min(cfg.FirstBlockBytes, cfg.BlockBytes)
	maxFiles := max(1, int(float64(cfg.BlockFiles)*(float64(maxBytes)/float64(cfg.BlockBytes))))
	var blocks [][]int
	var size int64
	start := 0
	for i, f := range order {
		next := max(files[f].GetSize(), 0)
		// Not compared as a sum, which hostile sizes could overflow.
		if i > start && (next > maxBytes-size || i-start >= maxFiles) {
			blocks = append(blocks, order[start:i:i])
			start, size = i, 0
			maxBytes, maxFiles = cfg.BlockBytes, int(cfg.BlockFiles)
		}
		size += next
	}
	if start < len(order) {
		blocks = append(blocks, order[start:])
	}
	return blocks
}

// DatasetDigest names a listing: the SHA-256 over each file's URI, size and ETag, and over what a table says of it, in
// the listing's order.
func DatasetDigest(files []*pb.File) []byte {
	h := sha256.New()
	for _, f := range files {
		writeText(h, f.GetUri())
		writeUint(h, uint64(f.GetSize()))
		writeText(h, f.GetEtag())
		writeTold(h, f)
	}
	return h.Sum(nil)
}

// writeTold writes what a table says of a file, if there is something.
func writeTold(w io.Writer, f *pb.File) {
	if len(f.GetConstants()) == 0 && len(f.GetExcluded()) == 0 {
		return
	}
	told, err := proto.MarshalOptions{Deterministic: true}.Marshal(
		&pb.File{Constants: f.GetConstants(), Excluded: f.GetExcluded()})
	if err != nil {
		panic(err) // it came as bytes, or was checked to be text
	}
	writeText(w, string(told))
}

func writeText(w io.Writer, s string) {
	writeUint(w, uint64(len(s)))
	_, _ = io.WriteString(w, s) // a hash takes any write
}

func writeUint(w io.Writer, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	_, _ = w.Write(b[:])
}

// hash is FNV-1a over its arguments, finished by splitmix64's mix, for FNV's upper bits hardly depend on a URI's
// last characters. The purpose keeps the orders of files and of shards independent.
func hash(purpose byte, seed int64, epoch uint32, uri string, index uint32) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	var fixed [17]byte
	fixed[0] = purpose
	binary.LittleEndian.PutUint64(fixed[1:], uint64(seed))
	binary.LittleEndian.PutUint32(fixed[9:], epoch)
	binary.LittleEndian.PutUint32(fixed[13:], index)
	for _, b := range fixed {
		h = (h ^ uint64(b)) * prime
	}
	for i := range len(uri) {
		h = (h ^ uint64(uri[i])) * prime
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
