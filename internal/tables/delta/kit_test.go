package delta

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

const (
	plainProtocol = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`
	plainSchema   = `{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}`
)

// metaLine is a metaData action.
func metaLine(schema string, partitions []string, config map[string]string) string {
	line, err := json.Marshal(map[string]any{"metaData": map[string]any{
		"id": "x", "format": map[string]any{"provider": "parquet", "options": map[string]string{}},
		"schemaString": schema, "partitionColumns": partitions, "configuration": config,
	}})
	if err != nil {
		panic(err)
	}
	return string(line)
}

func addLine(path string) string {
	return fmt.Sprintf(`{"add":{"path":%q,"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`, path)
}

func commitName(version int) string { return fmt.Sprintf("%020d.json", version) }

// begun is a log's first commit, and more lines.
func begun(lines ...string) string {
	return strings.Join(append([]string{plainProtocol, metaLine(plainSchema, nil, nil)}, lines...), "\n") + "\n"
}

// folder is a table in a directory.
type folder struct {
	dir     string
	storage *storage.Store
}

func newFolder(t interface {
	Fatal(args ...any)
}, dir string,
) folder {
	st, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, sidecarDir), 0o750); err != nil {
		t.Fatal(err)
	}
	return folder{dir, st}
}

// put writes a file of the log.
func (f folder) put(name, content string) {
	if err := os.WriteFile(filepath.Join(f.dir, logDir, name), []byte(content), 0o600); err != nil {
		panic(err)
	}
}

func (f folder) table(version string) *table.Table {
	return &table.Table{Storage: f.storage, Root: "file://" + f.dir, Version: version}
}

// logOf is a table whose log has some files.
func logOf(t *testing.T, files map[string]string) folder {
	t.Helper()
	f := newFolder(t, t.TempDir())
	for name, content := range files {
		f.put(name, content)
	}
	return f
}
