package delta

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// The rows of checkpoints, as this test writes them.
type (
	rowOf struct {
		Add      *addRow      `parquet:"add,optional"`
		Remove   *removeRow   `parquet:"remove,optional"`
		MetaData *metaRow     `parquet:"metaData,optional"`
		Protocol *protocolRow `parquet:"protocol,optional"`
		Sidecar  *sidecarRow  `parquet:"sidecar,optional"`
		Version  *versionRow  `parquet:"checkpointMetadata,optional"`
	}
	addRow struct {
		Path   string            `parquet:"path"`
		Values map[string]string `parquet:"partitionValues"`
		Size   int64             `parquet:"size"`
		Vector *vectorRow        `parquet:"deletionVector,optional"`
	}
	removeRow struct {
		Path string `parquet:"path"`
	}
	vectorRow struct {
		Storage     string `parquet:"storageType"`
		Place       string `parquet:"pathOrInlineDv"`
		Offset      *int32 `parquet:"offset,optional"`
		Size        int32  `parquet:"sizeInBytes"`
		Cardinality int64  `parquet:"cardinality"`
	}
	metaRow struct {
		Format struct {
			Provider string `parquet:"provider"`
		} `parquet:"format"`
		Schema     string   `parquet:"schemaString"`
		Partitions []string `parquet:"partitionColumns,list"`
	}
	protocolRow struct {
		Reader   int32    `parquet:"minReaderVersion"`
		Features []string `parquet:"readerFeatures,list"`
	}
	sidecarRow struct {
		Path string `parquet:"path"`
	}
	versionRow struct {
		Version int64 `parquet:"version"`
	}
)

const partitionSchema = `{"type":"struct","fields":[{"name":"id","type":"long"},{"name":"p","type":"integer"}]}`

// model is a version of a table: of each file the value of p, and where its deletion vector is, 0 for none.
type model map[string][2]int

func (m model) String() string {
	var lines []string
	for _, path := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, fmt.Sprintf("%s p=%d at %d", path, m[path][0], m[path][1]))
	}
	return strings.Join(lines, "\n")
}

// TestReplay makes histories with checkpoints of all forms and log compactions, cleans up their beginnings, and compares what each version
// has with a model.
func TestReplay(t *testing.T) {
	base := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		w := writer{T: t, folder: newFolder(t, filepath.Join(base, strconv.Itoa(runs)))}
		defer os.RemoveAll(w.dir) //nolint:errcheck // the test's folder is removed in any case
		var versions []model
		now := model{}
		checkpoints := []int{}
		for version := range rapid.IntRange(1, 8).Draw(t, "versions") {
			now = w.commit(version, now)
			versions = append(versions, now)
			if from := rapid.IntRange(0, version).Draw(t, "compacted from"); rapid.Bool().Draw(t, "compacted") {
				w.compact(from, version)
			}
			if rapid.IntRange(0, 3).Draw(t, "checkpoint") == 0 {
				w.checkpoint(version, now)
				checkpoints = append(checkpoints, version)
			}
		}
		oldest := 0
		if len(checkpoints) > 0 && rapid.Bool().Draw(t, "cleaned") {
			oldest = checkpoints[0]
			for version := range oldest + rapid.IntRange(0, 1).Draw(t, "its own, too") {
				_ = os.Remove(filepath.Join(w.dir, logDir, commitName(version)))
			}
		}
		for version, want := range versions {
			s, err := open(t.Context(), w.table(fmt.Sprintf("v%d", version)))
			if version < oldest {
				if err == nil || !strings.Contains(err.Error(), "is gone") {
					t.Fatalf("version %d of a log from %d on: %v, %v", version, oldest, s, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got := model{}
			for _, f := range s.Files {
				is := [2]int{int(f.Constants[0].GetValue().GetInt())}
				if len(f.Excluded) > 0 {
					is[1] = int(f.Excluded[0].Offset)
				}
				got[strings.TrimPrefix(f.Uri, "file://"+w.dir+"/")] = is
			}
			if got.String() != want.String() || len(s.Files) != len(want) {
				t.Fatalf("version %d:\n%v\nwant:\n%v", version, got, want)
			}
		}
	})
}

// writer writes a table's log.
type writer struct {
	*rapid.T
	folder
	vectors int
}

func (w *writer) vector(at int) map[string]any {
	if at == 0 {
		return nil
	}
	return map[string]any{
		"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": at, "sizeInBytes": 40, "cardinality": 6,
	}
}

// commit changes some files, and returns what there is afterwards.
func (w *writer) commit(version int, before model) model {
	var lines []string
	line := func(kind string, fields map[string]any) {
		text, err := json.Marshal(map[string]any{kind: fields})
		if err != nil {
			w.Fatal(err)
		}
		lines = append(lines, string(text))
	}
	spell := func(path string) string { // two ways to write it
		if w.draw("spelled", 1) == 0 {
			return strings.ReplaceAll(path, " ", "%20")
		}
		return "file:" + w.dir + "/" + strings.ReplaceAll(path, " ", "%20")
	}
	add := func(path string, is [2]int) {
		line("add", map[string]any{
			"path": spell(path), "partitionValues": map[string]string{"p": strconv.Itoa(is[0])}, "size": 1,
			"deletionVector": w.vector(is[1]),
		})
	}
	after := maps.Clone(before)
	for _, path := range []string{"a", "b/c d", "e", "p=1/f"} {
		is, there := before[path]
		switch what := w.draw("change", 5); {
		case what < 2:
		case !there: // also one that was removed before
			after[path] = [2]int{w.draw("p", 9), 0}
			add(path, after[path])
		case what == 2:
			delete(after, path)
			line("remove", map[string]any{"path": spell(path), "deletionVector": w.vector(is[1])})
		case what == 3:
			w.vectors++
			after[path] = [2]int{is[0], w.vectors}
			add(path, after[path])
			line("remove", map[string]any{"path": spell(path), "deletionVector": w.vector(is[1])})
		default: // the same again
			add(path, is)
		}
	}
	if version == 0 {
		lines = append(lines, `{"protocol":{"minReaderVersion":3,"readerFeatures":["deletionVectors","v2Checkpoint"]}}`,
			metaLine(partitionSchema, []string{"p"}, nil))
	}
	lines = append(lines, `{"txn":{"appId":"x","version":1}}`)
	order := rapid.Permutation(lines).Draw(w.T, "lines")
	w.put(commitName(version), strings.Join(order, "\n")+"\n")
	return after
}

func (w *writer) draw(label string, most int) int { return rapid.IntRange(0, most).Draw(w.T, label) }

// checkpoint writes one in one of the forms.
func (w *writer) checkpoint(version int, state model) {
	meta := &metaRow{Schema: partitionSchema, Partitions: []string{"p"}}
	meta.Format.Provider = "parquet"
	head := []rowOf{{MetaData: meta}, {Protocol: &protocolRow{3, []string{"deletionVectors", "v2Checkpoint"}}}}
	var files []rowOf
	for path, is := range state {
		row := &addRow{Path: strings.ReplaceAll(path, " ", "%20"), Values: map[string]string{"p": strconv.Itoa(is[0])}, Size: 1}
		if is[1] > 0 {
			at := int32(is[1])
			row.Vector = &vectorRow{"u", "ab^-aqEH.-t@S}K{vb[*k^", &at, 40, 6}
		}
		files = append(files, rowOf{Add: row})
	}
	slices.SortFunc(files, func(a, b rowOf) int { return cmp.Compare(a.Add.Path, b.Add.Path) })
	files = append(files, rowOf{Remove: &removeRow{Path: "gone"}})
	half := w.draw("half", len(files))
	name := fmt.Sprintf("%020d.checkpoint", version)
	switch w.draw("form", 3) {
	case 0:
		w.parquet(name+".parquet", append(head, files...))
	case 1:
		w.parquet(name+".0000000001.0000000002.parquet", append(head, files[:half]...))
		w.parquet(name+".0000000002.0000000002.parquet", files[half:])
		w.parquet(name+".0000000001.0000000003.parquet", nil) // another that lacks parts
	case 2:
		top := []rowOf{{Version: &versionRow{int64(version)}}}
		w.parquet(name+".80a083e8-7026-4e79-81be-64bd76c43a11.parquet", append(append(top, head...), w.sidecars(version, files, half)...))
	case 3:
		lines := []string{
			fmt.Sprintf(`{"checkpointMetadata":{"version":%d}}`, version), metaLine(partitionSchema, []string{"p"}, nil),
			`{"protocol":{"minReaderVersion":3,"readerFeatures":["deletionVectors","v2Checkpoint"]}}`,
		}
		for _, row := range w.sidecars(version, files, half) {
			lines = append(lines, fmt.Sprintf(`{"sidecar":{"path":%q}}`, row.Sidecar.Path))
		}
		w.put(uuidName(version), strings.Join(lines, "\n"))
	}
}

// compact writes what commits came to.
func (w *writer) compact(from, to int) {
	var lines []string
	seen := map[string]bool{}
	for version := to; version >= from; version-- {
		content, err := os.ReadFile(filepath.Join(w.dir, logDir, commitName(version)))
		if err != nil {
			w.Fatal(err)
		}
		actions, err := parseLines(content)
		if err != nil {
			w.Fatal(err)
		}
		for i, text := range slices.Backward(strings.Split(strings.TrimSpace(string(content)), "\n")) {
			if key := keyOf(&actions[i]); !seen[key] {
				seen[key] = true
				lines = append(lines, text)
			}
		}
	}
	lines = rapid.Permutation(lines).Draw(w.T, "lines of a compaction")
	w.put(fmt.Sprintf("%020d.%020d.compacted.json", from, to), strings.Join(lines, "\n")+"\n")
}

// keyOf is what an action is about.
func keyOf(a *action) string {
	path, v := "", (*vector)(nil)
	switch {
	case a.Add != nil:
		path, v = a.Add.Path, a.Add.Vector
	case a.Remove != nil:
		path, v = a.Remove.Path, a.Remove.Vector
	}
	return fmt.Sprint(a.MetaData != nil, a.Protocol != nil, path[strings.LastIndexByte(path, '/')+1:], v.id())
}

func (w *writer) sidecars(version int, files []rowOf, half int) (all []rowOf) {
	for i, part := range [][]rowOf{files[:half], files[half:]} {
		name := fmt.Sprintf("%d-%d.parquet", version, i)
		w.parquet("_sidecars/"+name, part)
		all = append(all, rowOf{Sidecar: &sidecarRow{Path: name}})
	}
	return all
}

func (w *writer) parquet(name string, rows []rowOf) { w.put(name, string(parquetOf(w, rows))) }

func parquetOf(t interface{ Fatal(args ...any) }, rows []rowOf) []byte {
	var out bytes.Buffer
	p := parquet.NewGenericWriter[rowOf](&out, parquet.MaxRowsPerRowGroup(2))
	if _, err := p.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
