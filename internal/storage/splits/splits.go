// Package splits tells which files of a folder a subset's split consists of, as the library `datasets` of Hugging Face
// has it: by what the folder's README.md says, or else by the names of files. Package storage, which lists the folder,
// reads the one and tells of the others. Nothing here reads anything, and a Finder belongs to one listing.
package splits

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// All is the split that stands for all splits of a subset.
const All = "all"

// unnamed is the name of a subset that has none.
const unnamed = "default"

// Subset is one of a dataset's, as a card tells it.
type Subset struct {
	Name    string
	Default bool
	// Dir is the folder that its files lie in, with a "/" at its end; "": the whole one.
	Dir string
	// Splits are those of the card; nil: names of files tell.
	Splits []Split
}

// Split is a part of a subset, of files that match any of its paths.
type Split struct {
	Name  string
	Paths []string // relative to the subset's folder
}

// Error is one of what a spec says, or fails to say.
type Error struct {
	Field   string // split or subset
	Message string
}

func (e *Error) Error() string { return "dataset." + e.Field + ": " + e.Message }

// ToRead says how to name a subset or split in a spec, in Python and on the command line.
func ToRead(field, name string) string {
	return fmt.Sprintf("write dataset.%s: %s (in Python %s=%q, on the command line --%s=%s)",
		field, name, field, name, field, name)
}

// Pick returns the subset of a name; of "" the card's default.
func Pick(card []Subset, name string) (Subset, error) {
	if len(card) == 0 {
		card = []Subset{{Name: unnamed}}
	}
	is := func(s Subset) bool { return s.Name == name }
	if name == "" && len(card) > 1 {
		is = func(s Subset) bool { return s.Default || s.Name == unnamed }
	}
	if name == "" && len(card) == 1 {
		return card[0], nil
	}
	if at := slices.IndexFunc(card, is); at >= 0 {
		return card[at], nil
	}
	names := namesOf(card)
	if name == "" {
		return Subset{}, Several(card)
	}
	return Subset{}, &Error{"subset", fmt.Sprintf("there is no subset %q: the dataset has %s: name one "+
		"that it has, or leave subset out if it has one", name, names)}
}

// Several is the error of who names none of several subsets.
func Several(card []Subset) error {
	return &Error{"subset", fmt.Sprintf("the dataset has the subsets %s: %s", namesOf(card),
		ToRead("subset", card[0].Name))}
}

func namesOf(card []Subset) string {
	var names []string
	for _, s := range card {
		names = append(names, s.Name)
	}
	return listed(names)
}

// maxListed is how many names an error has.
const maxListed = 20

// listed are names in words.
func listed(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		names = append(slices.Clone(names[:maxListed]), fmt.Sprintf("%d more", more))
	}
	return english.WordSeries(names, "and")
}

// Finder finds the files of a subset's splits, once it has met all files of the folder.
type Finder struct {
	subset Subset
	met    met
}

// NewFinder returns one of a subset.
func NewFinder(s Subset) *Finder { return &Finder{subset: s} }

// Meet tells of a file, by its name relative to the folder: of all that are not hidden, be they data or not.
func (f *Finder) Meet(name string) {
	if name, ok := strings.CutPrefix(name, f.subset.Dir); ok && f.subset.Splits == nil && !isIgnored(name) {
		f.met.note(name)
	}
}

// Splits are the names of the splits that there are.
func (f *Finder) Splits() ([]string, error) {
	if f.subset.Splits == nil {
		return f.met.splits()
	}
	var names []string
	for _, s := range f.subset.Splits {
		names = append(names, s.Name)
	}
	return names, nil
}

// Choose returns what the files of a split match; of "" those of the only one.
func (f *Finder) Choose(split string) (*Choice, error) {
	names, err := f.Splits()
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, &Error{"split", fmt.Sprintf("subset %s has no files", f.subset.Name)}
	case split == "" && len(names) > 1:
		return nil, &Error{"split", fmt.Sprintf("there are the splits %s: %s, or %s for all of them", listed(names),
			ToRead("split", names[0]), All)}
	case strings.ContainsAny(split, "[+"):
		return nil, &Error{"split", fmt.Sprintf("found %q; a split is read as a whole: name one of %s, or %s, and "+
			"choose rows by the filter", split, listed(names), All)}
	case split == All:
	case split == "":
		names = names[:1]
	case slices.Contains(names, split):
		names = []string{split}
	default:
		return nil, &Error{"split", fmt.Sprintf("there is no split %q: there are %s, and %s for all of them", split,
			listed(names), All)}
	}
	c := &Choice{dir: f.subset.Dir, Name: cmp.Or(split, names[0]), missing: map[string]bool{}}
	return c, c.add(f, names)
}

// Choice chooses files by their names.
type Choice struct {
	Name     string // of the split
	dir      string
	byName   []func(name string) bool
	missing  map[string]bool // paths without wildcards, whether no file was it so far
	patterns []pattern
}

func (c *Choice) add(f *Finder, names []string) error {
	if f.subset.Splits == nil {
		for _, name := range names {
			c.byName = append(c.byName, f.met.is(name))
		}
		return nil
	}
	for _, s := range f.subset.Splits {
		if !slices.Contains(names, s.Name) {
			continue
		}
		for _, path := range s.Paths {
			if !hasWildcards(path) {
				c.missing[path] = true
				continue
			}
			p, err := newPattern(path)
			if err != nil {
				return err
			}
			if c.patterns = append(c.patterns, p); len(c.patterns) > maxPatterns {
				return fmt.Errorf("split %s has more than %d paths with wildcards: give it fewer", c.Name, maxPatterns)
			}
		}
	}
	return nil
}

// Has reports whether a file, by its name relative to the folder, is one of the split's.
func (c *Choice) Has(name string) bool {
	name, ok := strings.CutPrefix(name, c.dir)
	if !ok {
		return false
	}
	if _, ok := c.missing[name]; ok {
		c.missing[name] = false
		return true
	}
	if slices.ContainsFunc(c.patterns, func(p pattern) bool { return p.match(name) }) {
		return true
	}
	return !isIgnored(name) && slices.ContainsFunc(c.byName, func(is func(string) bool) bool { return is(name) })
}

// Check fails unless, of all files that Has was asked of, there were those that the split names.
func (c *Choice) Check(chosen int) error {
	var missing []string
	for path, is := range c.missing {
		if is {
			missing = append(missing, path)
		}
	}
	slices.Sort(missing)
	switch {
	case len(missing) > 0:
		return fmt.Errorf("split %s has the file %s, which is not there, or of no format that is read", c.Name,
			c.dir+missing[0])
	case chosen == 0:
		return errors.New("split " + c.Name + " has no files of a format that is read")
	}
	return nil
}
