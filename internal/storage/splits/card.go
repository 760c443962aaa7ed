package splits

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// MaxCard is how much of a card is read.
const MaxCard = 1 << 20

// front is the part in YAML that a card begins with.
var front = regexp.MustCompile(`(?s)^\s*---(?:\r\n|\r|\n)(.*?)(?:\r\n|\r|\n)---[ \t]*(?:\r\n|\n|$)`)

// opens is how that part begins.
var opens = regexp.MustCompile(`^\s*---(?:\r\n|\r|\n)`)

// Parse reads the subsets that a card, README.md, tells of in the YAML at its beginning, if it does; whole says that it
// is not cut off.
func Parse(card []byte, whole bool) ([]Subset, error) {
	m := front.FindSubmatch(card)
	if m == nil {
		if !whole && opens.Match(card) {
			return nil, fmt.Errorf("the YAML at its beginning has more than %d bytes: make it shorter", len(card))
		}
		return nil, nil
	}
	var doc yaml.Node // what decodes nodes compares each key of a mapping with all others
	if err := yaml.Unmarshal(m[1], &doc); err != nil {
		return nil, fmt.Errorf("the YAML at its beginning is damaged: %w: correct it", err)
	}
	if doc.Kind == 0 {
		return nil, nil
	}
	top, err := fields(doc.Content[0])
	if err != nil {
		return nil, fmt.Errorf("the YAML at its beginning: %w", err)
	}
	configs := top["configs"]
	if isNull(configs) {
		return nil, nil
	}
	if configs.Kind != yaml.SequenceNode {
		return nil, errors.New("configs: want a list of {config_name, data_files}")
	}
	return subsets(configs.Content)
}

// isNull reports whether a node is not there, or holds nothing.
func isNull(n *yaml.Node) bool { return n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// aliased is what a node stands for.
func aliased(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// fields are those of a mapping.
func fields(of *yaml.Node) (map[string]*yaml.Node, error) {
	of = aliased(of)
	if of.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want a mapping", of.Line)
	}
	out := make(map[string]*yaml.Node, len(of.Content)/2)
	for i := 0; i+1 < len(of.Content); i += 2 {
		key := of.Content[i]
		switch {
		case out[key.Value] != nil && key.Kind == yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: %.100q is there twice: remove one", key.Line, key.Value)
		case key.Tag == "!!merge":
			return nil, fmt.Errorf("line %d: << is not read: write the fields out", key.Line)
		}
		out[key.Value] = aliased(of.Content[i+1])
	}
	return out, nil
}

// text is that of a scalar; "" if there is none.
func text(field string, n *yaml.Node) (string, error) {
	switch {
	case isNull(n):
		return "", nil
	case n.Kind != yaml.ScalarNode || strings.ContainsFunc(n.Value, isUnfit):
		return "", fmt.Errorf("%s: want text of printable characters", field)
	}
	return n.Value, nil
}

// subsets checks them.
func subsets(configs []*yaml.Node) (all []Subset, err error) {
	known, byDefault := map[string]bool{}, ""
	for i, c := range configs {
		s, err := subset(c)
		switch {
		case err != nil:
			return nil, fmt.Errorf("configs[%d]: %w", i, err)
		case known[s.Name]:
			return nil, fmt.Errorf("configs: there are two of config_name %s: remove one", s.Name)
		case s.Default && byDefault != "":
			return nil, fmt.Errorf("configs: %s and %s are both the default: leave one", byDefault, s.Name)
		case s.Default:
			byDefault = s.Name
		}
		known[s.Name] = true
		all = append(all, s)
	}
	return all, nil
}

func subset(config *yaml.Node) (s Subset, err error) {
	of, err := fields(config)
	if err != nil {
		return s, err
	}
	if s.Name, err = text("config_name", of["config_name"]); err == nil && s.Name == "" {
		err = errors.New("config_name: want the subset's name")
	}
	if err != nil {
		return s, err
	}
	s.Default = s.Name == unnamed
	if n := of["default"]; !isNull(n) {
		var is bool
		if n.Decode(&is) != nil {
			return s, errors.New("default: want true or false")
		}
		s.Default = s.Default || is
	}
	dir, err := text("data_dir", of["data_dir"])
	if err == nil {
		s.Dir, err = below(dir)
	}
	if err != nil {
		return s, err
	}
	if s.Dir != "" {
		s.Dir += "/"
	}
	s.Splits, err = splitsOf(of["data_files"])
	return s, err
}

func isUnfit(r rune) bool { return !unicode.IsPrint(r) }

var errFiles = errors.New("data_files: want a path, a list of paths, or a list of {split, path}")

// splitsOf reads data_files; nil: there are none.
func splitsOf(files *yaml.Node) (all []Split, err error) {
	if isNull(files) {
		return nil, nil
	}
	if len(files.Content) == 0 || aliased(files.Content[0]).Kind != yaml.MappingNode {
		paths, err := pathsOf(files)
		return []Split{{words()[0].split, paths}}, err
	}
	known := map[string]bool{}
	for _, n := range files.Content {
		s, err := split(n)
		switch {
		case err != nil:
			return nil, err
		case known[s.Name]:
			return nil, fmt.Errorf("data_files: split %s is there twice: put its paths into one list", s.Name)
		}
		known[s.Name] = true
		all = append(all, s)
	}
	return all, nil
}

func split(n *yaml.Node) (s Split, err error) {
	of, err := fields(n)
	if err != nil || isNull(of["path"]) {
		return s, errFiles
	}
	if s.Name, err = text("split", of["split"]); err != nil || !splitName.MatchString(s.Name) || s.Name == All {
		return s, fmt.Errorf("data_files: split %.100q: want letters, digits, _ and ., and not %s", s.Name, All)
	}
	s.Paths, err = pathsOf(of["path"])
	return s, err
}

// pathsOf reads a path, or a list of some.
func pathsOf(of *yaml.Node) (paths []string, err error) {
	nodes := []*yaml.Node{of}
	if of.Kind == yaml.SequenceNode {
		nodes = of.Content
	}
	for _, n := range nodes {
		given, err := text("data_files", aliased(n))
		if err == nil {
			given, err = below(given)
		}
		if err != nil {
			return nil, err
		}
		if given == "" {
			return nil, errFiles
		}
		paths = append(paths, given)
	}
	if len(paths) == 0 {
		return nil, errFiles
	}
	return paths, nil
}

// below makes a path plain, which must lead to below the folder.
func below(of string) (string, error) {
	switch clean := path.Clean(of); {
	case clean == ".":
		return "", nil
	case path.IsAbs(of), clean == "..", strings.HasPrefix(clean, "../"), strings.Contains(of, "://"),
		strings.ContainsFunc(of, isUnfit):
	default:
		return clean, nil
	}
	return "", fmt.Errorf("path %.200q does not lie below the folder: name such files in dataset.uri", of)
}
