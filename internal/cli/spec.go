package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// ReadSpec reads a spec from a file. Its errors name the file and every mistake in it. Paths without a scheme that are
// relative become absolute: the spec goes to processes with other working directories.
func ReadSpec(path string) (*pb.Spec, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	s, err := spec.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s:\n%w", path, err)
	}
	for i, uri := range s.GetDataset().GetUri() {
		if s.Dataset.Uri[i], err = absolute(uri); err != nil {
			return nil, fmt.Errorf("%s: dataset.uri: %w", path, err)
		}
	}
	return s, nil
}

func absolute(uri string) (string, error) {
	if strings.Contains(uri, "://") || filepath.IsAbs(uri) || uri == "" {
		return uri, nil
	}
	clean, err := filepath.Abs(uri)
	if err == nil && strings.HasSuffix(uri, "/") {
		clean += "/" // says that it is a directory
	}
	return clean, err
}
