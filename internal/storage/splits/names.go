package splits

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// word is a split that names of files and folders tell by words.
type word struct {
	split string
	words []string
}

// words are those that there are, in the order in which splits are told.
func words() []word {
	return []word{
		{"train", []string{"train", "training"}},
		{"validation", []string{"validation", "valid", "dev", "val"}},
		{"test", []string{"test", "testing", "eval", "evaluation"}},
	}
}

// separators stand beside a word of a name.
const separators = "-._ 0123456789"

// maxSplits bounds the splits that names of shards tell.
const maxSplits = 1000

var (
	// shard is the name of a file that tells its split by itself.
	shard = regexp.MustCompile(`^data/([^/]+)-\d{5}-of-\d{5}[^/]*\.[^/]*$`)
	// splitName is what a split may be called.
	splitName = regexp.MustCompile(`^[\pL\pN_]+(\.[\pL\pN_]+)*$`)
)

// met is what names of files tell of splits. The first of these that there is counts: names of shards, transcripts of
// evaluations, words in the names of folders, words in those of files; else all files are of train.
type met struct {
	any, logs, tooMany bool
	shards             []string // splits, sorted
	folders, files     [3]bool  // by words
}

func (m *met) note(name string) {
	m.any = true
	m.logs = m.logs || isLog(name)
	for i, w := range words() {
		m.folders[i] = m.folders[i] || w.inFolder(name)
		m.files[i] = m.files[i] || w.inFile(name)
	}
	split := splitOfShard(name)
	if at, known := slices.BinarySearch(m.shards, split); split != "" && !known {
		if m.tooMany = m.tooMany || len(m.shards) == maxSplits; !m.tooMany {
			m.shards = slices.Insert(m.shards, at, split)
		}
	}
}

// splits are their names.
func (m *met) splits() (names []string, err error) {
	if m.tooMany {
		return nil, fmt.Errorf("names of files tell of more than %d splits: name the files by wildcards", maxSplits)
	}
	for _, split := range m.shards {
		if !splitName.MatchString(split) {
			return nil, fmt.Errorf("data/%s-00000-of-... is named as a shard of a split %q, and a split has letters, "+
				"digits, _ and . alone: rename such files, or say in README.md which splits there are", split, split)
		}
	}
	switch {
	case len(m.shards) > 0:
		return ordered(m.shards), nil
	case m.logs:
		return []string{"logs"}, nil
	case m.folders != [3]bool{}:
		return told(m.folders), nil
	case m.files != [3]bool{}:
		return told(m.files), nil
	case m.any:
		return []string{words()[0].split}, nil
	}
	return nil, nil
}

// is returns what tells the files of a split, which is one of splits.
func (m *met) is(split string) func(name string) bool {
	at := slices.IndexFunc(words(), func(w word) bool { return w.split == split })
	switch {
	case len(m.shards) > 0:
		return func(name string) bool { return splitOfShard(name) == split }
	case m.logs:
		return isLog
	case m.folders != [3]bool{}:
		return words()[at].inFolder
	case m.files != [3]bool{}:
		return words()[at].inFile
	}
	return func(string) bool { return true }
}

// ordered puts splits with the usual names first.
func ordered(splits []string) []string {
	var usual []string
	for _, w := range words() {
		if slices.Contains(splits, w.split) {
			usual = append(usual, w.split)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(splits), func(s string) bool { return slices.Contains(usual, s) })
	return append(usual, rest...)
}

// told are the splits of words that were met.
func told(met [3]bool) (splits []string) {
	for i, w := range words() {
		if met[i] {
			splits = append(splits, w.split)
		}
	}
	return splits
}

func splitOfShard(name string) string {
	if !strings.HasPrefix(name, "data/") { // as most do not: sooner
		return ""
	}
	if m := shard.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

func isLog(name string) bool { return strings.HasSuffix(name, ".eval") }

// inFolder reports whether a folder of a file's has one of the words.
func (w word) inFolder(name string) bool {
	levels := strings.Split(name, "/")
	return slices.ContainsFunc(levels[:len(levels)-1], func(level string) bool { return w.in(level, true) })
}

// inFile reports whether a file's own name has one of the words.
func (w word) inFile(name string) bool { return w.in(path.Base(name), false) }

// in reports whether a level has one of the words between separators; ends: or at its end.
func (w word) in(level string, ends bool) bool {
	return slices.ContainsFunc(w.words, func(word string) bool {
		for from := 0; ; from++ {
			at := strings.Index(level[from:], word)
			if at < 0 {
				return false
			}
			from += at
			after := from + len(word)
			begins := from == 0 || strings.IndexByte(separators, level[from-1]) >= 0
			if begins && (after == len(level) && ends ||
				after < len(level) && strings.IndexByte(separators, level[after]) >= 0) {
				return true
			}
		}
	})
}

// isIgnored reports whether a file beside the data is none of it.
func isIgnored(name string) bool {
	return slices.Contains([]string{
		"README.md", "config.json", "dataset_info.json", "dataset_infos.json", "dummy_data.zip", "dataset_dict.json",
	}, path.Base(name))
}
