package delta

import (
	"fmt"
	"strings"
	"testing"
)

// TestRefused opens tables that must not be read, or cannot be.
func TestRefused(t *testing.T) {
	zero, one := commitName(0), commitName(1)
	protocol := func(reader int, features string) map[string]string {
		return map[string]string{zero: fmt.Sprintf(
			`{"protocol":{"minReaderVersion":%d,"minWriterVersion":7,"readerFeatures":[%s],"writerFeatures":[]}}`,
			reader, features) + "\n" + metaLine(plainSchema, nil, nil)}
	}
	schema := func(field string) map[string]string {
		text := `{"type":"struct","fields":[` + field + `]}`
		return map[string]string{zero: plainProtocol + "\n" + metaLine(text, nil, nil)}
	}
	added := func(line string) map[string]string { return map[string]string{zero: begun(line)} }
	vector := func(vector string) map[string]string {
		return added(`{"add":{"path":"a","size":1,"stats":"{\"numRecords\":2}","deletionVector":` + vector + `}}`)
	}
	for name, c := range map[string]struct {
		files   map[string]string
		version string
		want    string
	}{
		"no log":              {nil, "", "no log lies in _delta_log/"},
		"no such version":     {map[string]string{zero: begun()}, "v7", "there is no version 7: the newest is @v0; name that"},
		"no version":          {map[string]string{zero: begun()}, "main", "@main is no version: name one as @v12"},
		"begins late":         {map[string]string{one: begun()}, "", "the log begins with version 1"},
		"gap":                 {map[string]string{zero: begun(), commitName(2): addLine("a")}, "", one + " is missing"},
		"empty commit":        {map[string]string{zero: begun(), one: ""}, "", one + ": the file is empty"},
		"cut line":            {added(`{"add":{"path":"a"`), "", zero + ": line 3:"},
		"no object":           {added(`[]`), "", "line 3: it is no JSON object"},
		"wrong type":          {added(`{"add":{"path":1}}`), "", "line 3:"},
		"no path":             {added(`{"add":{"size":1}}`), "", "line 3: a file has no path"},
		"negative size":       {added(`{"add":{"path":"a","size":-1}}`), "", "-1 bytes"},
		"no metadata":         {map[string]string{zero: plainProtocol}, "", "tells the table's metadata"},
		"no protocol":         {map[string]string{zero: metaLine(plainSchema, nil, nil)}, "", "tells the protocol"},
		"newer protocol":      {protocol(4, ""), "", "wants readers of version 4"},
		"unknown feature":     {protocol(3, `"columnMapping","timeMachine"`), "", "the features timeMachine, which"},
		"catalog":             {protocol(3, `"catalogManaged"`), "", "a catalog manages it"},
		"no schema":           {map[string]string{zero: plainProtocol + "\n" + metaLine("{", nil, nil)}, "", "schemaString"},
		"twice a column":      {schema(`{"name":"a","type":"long"},{"name":"a","type":"long"}`), "", `"a" is there twice`},
		"widened otherwise":   {schema(`{"name":"a","type":"double","metadata":{"delta.typeChanges":[{"fromType":"long","toType":"double"}]}}`), "", "column a: its type was changed from long to double"},
		"deep schema":         {schema(`{"name":"a","type":` + strings.Repeat(`{"type":"array","elementType":`, 100) + `"long"` + strings.Repeat("}", 100) + `}`), "", "nests deeper"},
		"partition column":    {map[string]string{zero: plainProtocol + "\n" + metaLine(plainSchema, []string{"b"}, nil)}, "", `by the column "b", which`},
		"no partition value":  {map[string]string{zero: plainProtocol + "\n" + metaLine(plainSchema, []string{"id"}, nil) + "\n" + addLine("a")}, "", "no value of the partition column id"},
		"bad partition value": {map[string]string{zero: plainProtocol + "\n" + metaLine(plainSchema, []string{"id"}, nil) + "\n" + `{"add":{"path":"a","size":1,"partitionValues":{"id":"x"}}}`}, "", `"x" of the partition column id, of type long`},
		"above the table":     {added(addLine("../a.parquet")), "", "none of a file below the table's folder"},
		"above, encoded":      {added(addLine("b/%2e%2E/%2e./a.parquet")), "", "none of a file below the table's folder"},
		"shallow clone":       {added(addLine("file:///other/a.parquet")), "", "as files of a shallow clone do"},
		"another scheme":      {added(addLine("https://example.org/a.parquet")), "", "lies outside the table"},
		"absolute":            {added(addLine("/etc/passwd")), "", "lies outside the table"},
		"encoding":            {added(addLine("a%zz")), "", "not encoded as URIs are"},
		"twice with vectors": {map[string]string{zero: begun(addLine("a"),
			`{"add":{"path":"a","size":1,"deletionVector":{"storageType":"i","pathOrInlineDv":"","sizeInBytes":0}}}`)}, "", "twice, with different deletion vectors"},
		"vector above":     {vector(`{"storageType":"p","pathOrInlineDv":"../x.bin","sizeInBytes":4}`), "", "its deletion vector: the path"},
		"vector elsewhere": {vector(`{"storageType":"p","pathOrInlineDv":"s3://b/x.bin","sizeInBytes":4}`), "", "lies outside the table"},
		"vector's folder":  {vector(`{"storageType":"u","pathOrInlineDv":"../` + strings.Repeat("0", 20) + `"}`), "", "names no file of a deletion vector"},
		"vector's storage": {vector(`{"storageType":"x"}`), "", `storage type "x"`},
		"vector's digits":  {vector(`{"storageType":"i","pathOrInlineDv":"~~~~~","sizeInBytes":4}`), "", "is no digit in base 85"},
		"vector's size":    {vector(`{"storageType":"i","pathOrInlineDv":"00000","sizeInBytes":9}`), "", "4 bytes where 9 are told"},
		"vector's rows":    {vector(`{"storageType":"i","pathOrInlineDv":"00000","sizeInBytes":4,"cardinality":3}`), "", "3 of its 2 rows are deleted"},
		"damaged parquet":  {map[string]string{commitName(1): addLine("a"), strings.Replace(zero, "json", "checkpoint.parquet", 1): "PAR1xxxxPAR1"}, "", "checkpoint.parquet: the checkpoint is damaged"},
		"damaged compaction": {
			map[string]string{
				zero: begun(), commitName(1): addLine("a"),
				"00000000000000000000.00000000000000000001.compacted.json": begun(addLine("a")) + "{",
			}, "", "compacted.json: line 4: unexpected end of JSON input; the file is damaged or cut: restore it, or remove it",
		},
		"no sidecar":         {map[string]string{uuidName(0): `{"checkpointMetadata":{"version":0}}` + "\n" + `{"sidecar":{"path":"a.parquet","sizeInBytes":1}}`}, "", "a.parquet is missing"},
		"of another":         {map[string]string{uuidName(0): `{"checkpointMetadata":{"version":7}}`}, "", "says that it is of version 7"},
		"cleaned":            {map[string]string{uuidName(5): begun(), commitName(6): addLine("a")}, "v3", "version 3 is gone, since the log was cleaned up: versions 5 to 6"},
		"too old":            {map[string]string{zero: begun(`{"commitInfo":{"timestamp":1700000000000}}`)}, "2001-01-01", "no version is as old as 2001-01-01T00:00:00Z: version 0 of 2023-11-14T22:13:20Z is the oldest that is there; name a later time"},
		"no times":           {map[string]string{zero: begun()}, "2001-01-01", "notes no time: name a version, such as @v0"},
		"mapping unknown":    {map[string]string{zero: `{"protocol":{"minReaderVersion":2}}` + "\n" + metaLine(plainSchema, nil, map[string]string{"delta.columnMapping.mode": "guess"})}, "", `delta.columnMapping.mode is "guess"`},
		"mapping incomplete": {map[string]string{zero: `{"protocol":{"minReaderVersion":2}}` + "\n" + metaLine(plainSchema, nil, map[string]string{"delta.columnMapping.mode": "name"})}, "", "column id lacks delta.columnMapping.physicalName"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(t.Context(), logOf(t, c.files).table(c.version))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want an error that says %q", s, err, c.want)
			}
		})
	}
}

func uuidName(version int) string {
	return fmt.Sprintf("%020d.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", version)
}
