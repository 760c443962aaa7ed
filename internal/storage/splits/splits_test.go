package splits

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// layout is a folder, and what the library datasets takes of it: testdata/generate.py.
type layout struct {
	Name    string
	Readme  *string
	Files   []string
	Error   string
	Default *string
	Subsets map[string]map[string][]string
}

func layouts(t testing.TB) []layout {
	t.Helper()
	text, err := os.ReadFile("testdata/layouts.json")
	if err != nil {
		t.Fatal(err)
	}
	var of struct{ Layouts []layout }
	if err := json.Unmarshal(text, &of); err != nil || len(of.Layouts) == 0 {
		t.Fatal(err)
	}
	return of.Layouts
}

// seen are the files that package storage sees: none that is hidden.
func (l layout) seen() []string {
	return slices.DeleteFunc(slices.Clone(l.Files), func(name string) bool {
		return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
	})
}

// read returns what a split consists of.
func (l layout) read(f *Finder, split string) (files []string, err error) {
	c, err := f.Choose(split)
	if err != nil {
		return nil, err
	}
	for _, name := range l.seen() {
		if c.Has(name) && slices.Contains([]string{".csv", ".parquet", ".jsonl", ".json", ".gz", ".eval"}, path.Ext(name)) {
			files = append(files, name)
		}
	}
	slices.Sort(files)
	return files, c.Check(len(files))
}

func (l layout) subsets() ([]Subset, error) {
	if l.Readme == nil {
		return nil, nil
	}
	return Parse([]byte(*l.Readme), true)
}

func (l layout) finder(s Subset) *Finder {
	f := NewFinder(s)
	for _, name := range l.seen() {
		f.Meet(name)
	}
	return f
}

// all is what the layout is read as.
func (l layout) all() (map[string]map[string][]string, error) {
	subsets, err := l.subsets()
	if err == nil && subsets == nil {
		subsets = []Subset{{Name: unnamed}}
	}
	all := map[string]map[string][]string{}
	for _, s := range subsets {
		f, of := l.finder(s), map[string][]string{}
		names, err := f.Splits()
		if err != nil {
			return nil, err
		}
		for _, split := range names {
			if of[split], err = l.read(f, split); err != nil {
				return nil, err
			}
		}
		all[s.Name] = of
	}
	return all, err
}

// TestAsDatasets: subsets and splits are those of the library datasets, which fails where we do.
func TestAsDatasets(t *testing.T) {
	for _, l := range layouts(t) {
		got, err := l.all()
		if l.Error != "" {
			if err == nil {
				t.Errorf("%s: %v, and datasets has a %s", l.Name, got, l.Error)
			}
			continue
		}
		want, _ := json.Marshal(l.Subsets)
		if have, _ := json.Marshal(got); err != nil || string(have) != string(want) {
			t.Errorf("%s: %v\n got %s\nwant %s", l.Name, err, have, want)
			continue
		}
		subsets, _ := l.subsets()
		picked, err := Pick(subsets, "")
		if l.Default == nil && err == nil || l.Default != nil && (err != nil || picked.Name != *l.Default) {
			t.Errorf("%s: the default is %s, %v", l.Name, picked.Name, err)
		}
	}
}

// TestWhatIsNotThere: errors name what there is, and what to write.
func TestWhatIsNotThere(t *testing.T) {
	f := NewFinder(Subset{Name: unnamed})
	for _, name := range []string{"train.csv", "test.csv"} {
		f.Meet(name)
	}
	for split, want := range map[string]string{
		"":    "write dataset.split: train (in Python split=\"train\", on the command line --split=train), or all",
		"dev": "there are train and test, and all", "train[:10%]": "a split is read as a whole", "train+test": "as a whole",
	} {
		var of *Error
		if _, err := f.Choose(split); !errors.As(err, &of) || of.Field != "split" || !strings.Contains(of.Message, want) {
			t.Errorf("%q: %v", split, err)
		}
	}
	if c, err := f.Choose(All); err != nil || !c.Has("train.csv") || !c.Has("test.csv") {
		t.Error("all", err)
	}
	card := []Subset{{Name: "en"}, {Name: "fr"}}
	for subset, want := range map[string]string{"": "write dataset.subset: en", "de": "it has en and fr"} {
		var of *Error
		want = strings.Replace(want, "it has", "the dataset has", 1)
		if _, err := Pick(card, subset); !errors.As(err, &of) || of.Field != "subset" || !strings.Contains(of.Message, want) {
			t.Errorf("%q: %v", subset, err)
		}
	}
}

// TestCardsOfOthers: what a card must not say, and how it may be cut, is refused.
func TestCardsOfOthers(t *testing.T) {
	for of, want := range map[string]string{
		"- {config_name: x, data_files: ../a.csv}":                    "does not lie below",
		"- {config_name: x, data_files: [a/../../b.csv]}":             "does not lie below",
		"- {config_name: x, data_dir: /etc}":                          "does not lie below",
		"- {config_name: x, data_files: 'https://example.org/a.csv'}": "does not lie below",
		"- {config_name: \"a\\eb\", data_files: a.csv}":               "printable",
		"- {config_name: x, data_files: [{split: all, path: a.csv}]}": "and not all",
		"- {config_name: x, data_files: []}":                          "want a path",
		"- {config_name: x}\n- {config_name: x}":                      "two of config_name x",
		"- &a {config_name: x, data_files: [*a]}":                     "configs",
	} {
		if _, err := Parse([]byte("---\nconfigs:\n"+of+"\n---\n"), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", of, err, want)
		}
	}
	if _, err := Parse([]byte("---\nconfigs:\n"), false); err == nil || !strings.Contains(err.Error(), "make it shorter") {
		t.Error(err)
	}
	if all, err := Parse([]byte("# A long text"), false); all != nil || err != nil {
		t.Error(all, err)
	}
}

// FuzzParse: a card never makes anything panic, and names nothing outside of its folder.
func FuzzParse(f *testing.F) {
	for _, l := range layouts(f) {
		if l.Readme != nil {
			f.Add([]byte(*l.Readme), "train/a.csv")
		}
	}
	f.Add([]byte("---\n"+strings.Repeat("a: b\n", 2000)+"---\n"), "a.csv")
	f.Fuzz(func(t *testing.T, card []byte, name string) {
		subsets, err := Parse(card, true)
		if err != nil {
			return
		}
		for _, s := range subsets {
			finder := NewFinder(s)
			finder.Meet(name)
			if strings.HasPrefix(s.Dir, "/") || strings.HasPrefix(s.Dir, "../") {
				t.Error(s.Dir)
			}
			if c, err := finder.Choose(All); err == nil && c.Has(name) && !strings.HasPrefix(name, s.Dir) {
				t.Errorf("%q is not below %q", name, s.Dir)
			}
		}
	})
}
