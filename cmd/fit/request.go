package fit

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/cli"
)

// request is what the Python package asks for.
type request struct {
	Spec json.RawMessage `json:"spec"` // as protojson has it
	Code []byte          `json:"code"` // of its functions, unless they are by name
}

// read reads the spec.
func (r *fit) read(path string) (err error) {
	if !r.message {
		r.spec, err = cli.ReadSpec(path)
		r.fleet.Names = spec.ByName(r.spec)
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	var asked request
	r.spec = &pb.Spec{}
	if err = json.Unmarshal(text, &asked); err == nil {
		err = protojson.Unmarshal(asked.Spec, r.spec)
	}
	if err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	r.code, r.fleet.Brings = asked.Code, len(asked.Code) > 0
	return nil
}

// textOf is a spec as people read it, and as it tells one fit from another. Of functions that it brings there are the
// names, and a comment has the digest of their code.
func textOf(s *pb.Spec) (string, error) {
	head := ""
	if code := s.GetCode(); code != nil {
		head = fmt.Sprintf("# code sha256:%s, Python %s\n", hex.EncodeToString(code.GetDigest()), code.GetPython())
	}
	s = proto.CloneOf(s)
	s.Code = nil
	for _, t := range s.GetTransforms() {
		if f := t.GetPython(); f != nil { // else it has no call
			f.Call = cmp.Or(f.GetCall(), f.GetName())
			f.Name, f.Index, f.Rng, f.Deterministic = "", 0, false, false
		}
	}
	text, err := spec.Format(s)
	return head + string(text), err
}

// calls notes which functions by name a pass calls. They must be those of the passes before, of which a fleet may have
// had another version.
func (r *fit) calls(pinned *pb.Spec) error {
	for call, digest := range spec.CalledCode(pinned) {
		now, was := hex.EncodeToString(digest), r.functions[call]
		if was != "" && was != now {
			name, _, _ := strings.Cut(call, "(")
			return fmt.Errorf("%s changed since an earlier pass called it: remove the folder %s to fit from the start",
				name, r.folder)
		}
		if r.functions == nil {
			r.functions = map[string]string{}
		}
		r.functions[call] = now
	}
	return nil
}
