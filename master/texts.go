package master

import (
	"crypto/sha256"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// textsKept bounds how many specs a master remembers by their text; each has maxSpecText at most.
const textsKept = 16

// specTexts are the specs that the last texts said: all ranks of a job send the same one, and a thousand borders take
// longer to parse than a session to open.
type specTexts struct {
	mu    sync.Mutex
	known []knownText // the last one that was asked for is the last
}

type knownText struct {
	sum  [sha256.Size]byte
	spec *pb.Spec // not to be changed
}

// parse returns what a text says, of which the caller may do what it likes. What cannot be parsed is not remembered.
func (s *specTexts) parse(text, workingDir string) (*pb.Spec, error) {
	sum := sha256.Sum256([]byte(workingDir + "\x00" + text))
	if known := s.find(sum); known != nil {
		return proto.CloneOf(known), nil
	}
	parsed, err := parseSpec([]byte(text), workingDir)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = append(s.known, knownText{sum, proto.CloneOf(parsed)})
	s.known = slices.Delete(s.known, 0, max(0, len(s.known)-textsKept))
	return parsed, nil
}

func (s *specTexts) find(sum [sha256.Size]byte) *pb.Spec {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.known, func(k knownText) bool { return k.sum == sum })
	if i < 0 {
		return nil
	}
	k := s.known[i]
	s.known = append(slices.Delete(s.known, i, i+1), k)
	return k.spec
}
