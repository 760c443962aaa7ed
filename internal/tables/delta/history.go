package delta

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

const (
	logDir     = "/_delta_log/"
	sidecarDir = logDir + "_sidecars/"
)

// Names of the log's files. Other names say nothing of what a version consists of.
var (
	isCommit     = regexp.MustCompile(`^(\d{20})\.json$`)
	isCheckpoint = regexp.MustCompile(`^(\d{20})\.checkpoint\.parquet$`)
	isPart       = regexp.MustCompile(`^(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet$`)
	isCompacted  = regexp.MustCompile(`^(\d{20})\.(\d{20})\.compacted\.json$`)
	isNamed      = regexp.MustCompile(`^(\d{20})\.checkpoint\.[0-9a-fA-F-]{36}\.(?:json|parquet)$`) // by a UUID
)

// history is what versions a log has. What _last_checkpoint says is not asked: the listing knows better.
type history struct {
	dir         string
	commits     []logFile              // by version
	checkpoints []checkpoint           // complete ones, one a version, by version
	compacted   map[int64][]compaction // by the last of their commits
}

// compaction is a file that says what several commits do.
type compaction struct {
	commits int
	file    *pb.File
}

// logFile is a file of the log.
type logFile struct {
	version int64
	file    *pb.File
}

// checkpoint is the state of a version, in one or several files.
type checkpoint struct {
	version int64
	parts   []*pb.File
}

// span is what a version is replayed from.
type span struct {
	commits    []logFile // newest first
	checkpoint *checkpoint
}

// list finds the log's files by one listing.
func list(ctx context.Context, t *table.Table) (*history, error) {
	ours := func(uri string) bool {
		name := uri[strings.LastIndexByte(uri, '/')+1:]
		return strings.HasSuffix(uri, logDir+name) && len(name) > 20 && versionOf(name) >= 0
	}
	found, err := find(ctx, t, logDir, ours)
	if errors.Is(err, object.ErrNoFolders) {
		return nil, errors.New("web servers do not list folders, and the log of a table is one: copy the table to a " +
			"store that lists them, such as S3")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no log lies in _delta_log/: name the folder that has it (%w)", err)
	}
	if err != nil {
		return nil, err
	}
	return newHistory(t.Root+logDir, found), nil
}

// find lists files of one of the table's own folders.
func find(ctx context.Context, t *table.Table, dir string, has func(uri string) bool) ([]*pb.File, error) {
	from, ok := t.Storage.(storage.Finder)
	if !ok {
		return nil, errors.New("this storage lists data alone, and no logs of tables")
	}
	kind := storage.Kind{Ends: ".json or .parquet", Has: has, Own: true}
	found, _, err := from.Find(ctx, t.Profile, []string{storage.Quote(t.Root) + dir}, kind)
	return found, err
}

// versionOf is the version that the name of a file of the log begins with, -1 if the name is none of such a file.
func versionOf(name string) int64 {
	for _, of := range []*regexp.Regexp{isCommit, isCheckpoint, isPart, isCompacted, isNamed} {
		if m := of.FindStringSubmatch(name); m != nil {
			version, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				return -1
			}
			return version
		}
	}
	return -1
}

// newHistory sorts out the log's files.
func newHistory(dir string, files []*pb.File) *history {
	h := &history{dir: dir, compacted: map[int64][]compaction{}}
	whole, named := map[int64][]*pb.File{}, map[int64][]*pb.File{}
	parts := map[[2]int64][]*pb.File{} // by version and number of parts
	for _, f := range files {
		name := strings.TrimPrefix(f.GetUri(), dir)
		version := versionOf(name)
		switch part := isPart.FindStringSubmatch(name); {
		case version < 0:
		case isCommit.MatchString(name):
			h.commits = append(h.commits, logFile{version, f})
		case part != nil:
			of, _ := strconv.ParseInt(part[3], 10, 64) // ten digits
			parts[[2]int64{version, of}] = append(parts[[2]int64{version, of}], f)
		case isCompacted.MatchString(name):
			h.addCompacted(version, f)
		case isNamed.MatchString(name):
			named[version] = append(named[version], f)
		default:
			whole[version] = []*pb.File{f}
		}
	}
	slices.SortFunc(h.commits, func(a, b logFile) int { return cmp.Compare(a.version, b.version) })
	for key, all := range parts { // one that lacks parts is still being written, or its writer died
		if int64(len(all)) == key[1] && whole[key[0]] == nil {
			slices.SortFunc(all, byURI)
			whole[key[0]] = all
		}
	}
	for version, all := range named { // they say the same
		if whole[version] == nil {
			whole[version] = []*pb.File{slices.MinFunc(all, byURI)}
		}
	}
	for version, files := range whole {
		h.checkpoints = append(h.checkpoints, checkpoint{version, files})
	}
	slices.SortFunc(h.checkpoints, func(a, b checkpoint) int { return cmp.Compare(a.version, b.version) })
	return h
}

// addCompacted takes in what several commits came to, from a version on.
func (h *history) addCompacted(from int64, f *pb.File) {
	name := strings.TrimPrefix(f.GetUri(), h.dir)
	to, err := strconv.ParseInt(isCompacted.FindStringSubmatch(name)[2], 10, 64)
	if err == nil && to > from {
		h.compacted[to] = append(h.compacted[to], compaction{int(to - from + 1), f})
	}
}

func byURI(a, b *pb.File) int { return cmp.Compare(a.GetUri(), b.GetUri()) }

// newest is the newest version; -1: there is none.
func (h *history) newest() int64 {
	newest := int64(-1)
	if n := len(h.commits); n > 0 {
		newest = h.commits[n-1].version
	}
	if n := len(h.checkpoints); n > 0 {
		newest = max(newest, h.checkpoints[n-1].version)
	}
	return newest
}

// oldest is the oldest version that can be replayed; -1: there is none.
func (h *history) oldest() int64 {
	switch {
	case len(h.commits) > 0 && h.commits[0].version == 0:
		return 0
	case len(h.checkpoints) > 0:
		return h.checkpoints[0].version
	}
	return -1
}

// until is what a version is replayed from: the newest checkpoint up to it, and all commits after that.
func (h *history) until(version int64) (span, error) {
	var s span
	first := int64(0)
	for i := range h.checkpoints {
		if c := &h.checkpoints[i]; c.version <= version {
			s.checkpoint, first = c, c.version+1
		}
	}
	oldest, newest := h.oldest(), h.newest()
	switch {
	case newest < 0:
		return s, fmt.Errorf("%s has neither commits nor checkpoints: name the folder of a table", h.dir)
	case version > newest:
		return s, fmt.Errorf("there is no version %d: the newest is @v%d; name that, or an older one", version, newest)
	case oldest < 0:
		return s, fmt.Errorf("the log begins with version %d, and no checkpoint has what was before: "+
			"restore %s", h.commits[0].version, h.name(0))
	case version < oldest:
		return s, fmt.Errorf("version %d is gone, since the log was cleaned up: versions %d to %d are there",
			version, oldest, newest)
	}
	before := func(c logFile, v int64) int { return cmp.Compare(c.version, v) }
	at, _ := slices.BinarySearchFunc(h.commits, first, before)
	for want := first; want <= version; want++ {
		if at >= len(h.commits) || h.commits[at].version != want {
			return s, fmt.Errorf("%s is missing, and no checkpoint stands in for it: restore it, or name another "+
				"version than %d", h.name(want), version)
		}
		s.commits = append(s.commits, h.commits[at])
		at++
	}
	slices.Reverse(s.commits)
	s.commits = h.fewer(s.commits)
	return s, nil
}

// fewer puts log compactions in the place of commits, which come newest first. All commits are there, so that whether
// the log has compactions decides nothing but how many files are read.
func (h *history) fewer(commits []logFile) (out []logFile) {
	for len(commits) > 0 {
		next, n := commits[0], 1
		for _, c := range h.compacted[next.version] {
			if c.commits > n && c.commits <= len(commits) {
				next.file, n = c.file, c.commits
			}
		}
		out, commits = append(out, next), commits[n:]
	}
	return out
}

// name is the URI of a version's commit.
func (h *history) name(version int64) string { return fmt.Sprintf("%s%020d.json", h.dir, version) }
