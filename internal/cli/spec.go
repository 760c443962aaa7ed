package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// ReadSpec reads a spec from a file. Its errors name the file and every mistake in it. Paths without a scheme that are
// relative become absolute: the spec goes to processes with other working directories.
func ReadSpec(path string) (*pb.Spec, error) {
	text, err := os.ReadFile(path)
	if err != nil && isData(path) {
		return nil, fmt.Errorf("spec: %w; "+ofData, err, path)
	}
	if err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	s, err := spec.Parse(text)
	if unreadable(err) && !isSpec(path) {
		return nil, fmt.Errorf("%s:\n%w\n"+ofData, path, err, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s:\n%w", path, err)
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("%s: find its relative paths: %w", path, err)
	}
	spec.ResolvePaths(s, here)
	return s, nil
}

// ofData is the next step where data is given in place of a spec.
const ofData = "SPEC is a YAML file that names a dataset and what to read of it; `penstock show %s` shows what data " +
	"holds"

// isData tells folders and URIs.
func isData(path string) bool {
	info, err := os.Stat(path)
	return strings.Contains(path, "://") || err == nil && info.IsDir()
}

// isSpec tells specs by their names.
func isSpec(path string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
}

// unreadable tells errors of texts that are no spec at all.
func unreadable(err error) bool {
	var problems spec.Problems
	return errors.As(err, &problems) && problems[0].Path == ""
}
