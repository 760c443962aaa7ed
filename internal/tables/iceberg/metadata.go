package iceberg

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// maxFormat is the newest version of the format that is read.
const maxFormat = 3

// metadata is what a metadata file says, as it has it in JSON.
type metadata struct {
	Format     int               `json:"format-version"`
	Location   string            `json:"location"`
	Properties map[string]string `json:"properties"`

	Schemas       []schemaJSON `json:"schemas"`
	CurrentSchema int          `json:"current-schema-id"`
	Schema        *schemaJSON  `json:"schema"` // of version 1

	Specs []partitionSpec  `json:"partition-specs"`
	Spec  []partitionField `json:"partition-spec"` // of version 1

	Snapshots []snapshot     `json:"snapshots"`
	Current   *int64         `json:"current-snapshot-id"`
	Log       []logEntry     `json:"snapshot-log"`
	Refs      map[string]ref `json:"refs"`
}

type snapshot struct {
	ID        int64    `json:"snapshot-id"`
	Time      int64    `json:"timestamp-ms"`
	List      string   `json:"manifest-list"`
	Manifests []string `json:"manifests"` // of version 1, in place of a list
	Schema    *int     `json:"schema-id"`
	Key       string   `json:"key-id"` // with which the list is encrypted
}

type logEntry struct {
	Time int64 `json:"timestamp-ms"`
	ID   int64 `json:"snapshot-id"`
}

// ref is a branch or a tag.
type ref struct {
	ID   int64  `json:"snapshot-id"`
	Type string `json:"type"`
}

type partitionSpec struct {
	ID     int              `json:"spec-id"`
	Fields []partitionField `json:"fields"`
}

type partitionField struct {
	ID        int    `json:"field-id"`
	Source    int    `json:"source-id"`
	Name      string `json:"name"`
	Transform string `json:"transform"`
}

// schemaJSON is a schema, or a type that nests others.
type schemaJSON struct {
	ID     int         `json:"schema-id"`
	Type   string      `json:"type"`
	Fields []fieldJSON `json:"fields"`

	Element         json.RawMessage `json:"element"`
	ElementID       int             `json:"element-id"`
	ElementRequired bool            `json:"element-required"`
	Key             json.RawMessage `json:"key"`
	KeyID           int             `json:"key-id"`
	Value           json.RawMessage `json:"value"`
	ValueID         int             `json:"value-id"`
	ValueRequired   bool            `json:"value-required"`
}

type fieldJSON struct {
	ID       int             `json:"id"`
	Name     string          `json:"name"`
	Required bool            `json:"required"`
	Type     json.RawMessage `json:"type"`
	Default  json.RawMessage `json:"initial-default"`
}

// check refuses what cannot be read, and gives what version 1 has the place that it has in others.
func (m *metadata) check() error {
	switch {
	case m.Format == 0:
		return errors.New("it has no format-version: it is none of a table, or damaged")
	case m.Format < 0 || m.Format > maxFormat:
		return fmt.Errorf("it is of the format's version %d; versions 1 to %d are read", m.Format, maxFormat)
	case m.Location == "":
		return errors.New("it has no location: the file is damaged; restore it")
	}
	if len(m.Schemas) == 0 && m.Schema != nil {
		m.Schemas, m.CurrentSchema = []schemaJSON{*m.Schema}, m.Schema.ID
	}
	if len(m.Specs) == 0 {
		for i := range m.Spec {
			if m.Spec[i].ID == 0 {
				m.Spec[i].ID = firstPartitionID + i
			}
		}
		m.Specs = []partitionSpec{{Fields: m.Spec}}
	}
	return nil
}

// firstPartitionID is the id of the first partition field of tables that say none.
const firstPartitionID = 1000

func (m *metadata) snapshot(id int64) *snapshot {
	if i := slices.IndexFunc(m.Snapshots, func(s snapshot) bool { return s.ID == id }); i >= 0 {
		return &m.Snapshots[i]
	}
	return nil
}

func (m *metadata) schema(id int) (*schemaJSON, error) {
	if i := slices.IndexFunc(m.Schemas, func(s schemaJSON) bool { return s.ID == id }); i >= 0 {
		return &m.Schemas[i], nil
	}
	return nil, fmt.Errorf("its metadata lacks the schema %d: it is damaged; restore it", id)
}

func (m *metadata) spec(id int) (*partitionSpec, error) {
	if i := slices.IndexFunc(m.Specs, func(s partitionSpec) bool { return s.ID == id }); i >= 0 {
		return &m.Specs[i], nil
	}
	return nil, fmt.Errorf("its metadata lacks the partition spec %d: it is damaged; restore it", id)
}
