package delta

import (
	"errors"
	"fmt"
)

// action is an entry of a log, as far as readers of files need it. One of the fields is set, or none.
type action struct {
	Add        *add                `json:"add"`
	Remove     *remove             `json:"remove"`
	MetaData   *metadata           `json:"metaData"`
	Protocol   *protocol           `json:"protocol"`
	CommitInfo *commitInfo         `json:"commitInfo"`
	Sidecar    *sidecar            `json:"sidecar"`
	Checkpoint *checkpointMetadata `json:"checkpointMetadata"`

	version int64 // of the commit or checkpoint
}

type add struct {
	Path       string             `json:"path"`
	Partitions map[string]*string `json:"partitionValues"`
	Size       int64              `json:"size"`
	Stats      string             `json:"stats"`
	Vector     *vector            `json:"deletionVector"`

	rows *int64 // where a checkpoint has that and no Stats
}

type remove struct {
	Path   string  `json:"path"`
	Vector *vector `json:"deletionVector"`
}

type metadata struct {
	Format struct {
		Provider string `json:"provider"`
	} `json:"format"`
	Schema     string             `json:"schemaString"`
	Partitions []string           `json:"partitionColumns"`
	Config     map[string]*string `json:"configuration"`
}

type commitInfo struct {
	InCommit  *int64 `json:"inCommitTimestamp"`
	Timestamp *int64 `json:"timestamp"`
}

// time is when a commit was made, in milliseconds since 1970.
func (c *commitInfo) time() (int64, bool) {
	switch {
	case c.InCommit != nil:
		return *c.InCommit, true
	case c.Timestamp != nil:
		return *c.Timestamp, true
	}
	return 0, false
}

type sidecar struct {
	Path string `json:"path"`
}

type checkpointMetadata struct {
	Version int64 `json:"version"`
}

// property is one of the table's.
func (m *metadata) property(name string) string {
	if value := m.Config[name]; value != nil {
		return *value
	}
	return ""
}

// check finds what an action must not be.
func (a *action) check() error {
	switch {
	case a.Add != nil && a.Add.Path == "" || a.Remove != nil && a.Remove.Path == "":
		return errors.New("a file has no path")
	case a.Add != nil && a.Add.Size < 0:
		return fmt.Errorf("the file %s has %d bytes", a.Add.Path, a.Add.Size)
	case a.Sidecar != nil && a.Sidecar.Path == "":
		return errors.New("a sidecar has no path")
	}
	return nil
}
