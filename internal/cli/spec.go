package cli

import (
	"fmt"
	"os"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// ReadSpec reads a spec from a file. Its errors name the file and every mistake in it.
func ReadSpec(path string) (*pb.Spec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	s, err := spec.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s:\n%w", path, err)
	}
	return s, nil
}
