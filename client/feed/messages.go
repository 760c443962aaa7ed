package feed

import (
	"encoding/json"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
)

// language is what is said after a hello. A change that the other side would not understand counts it up.
const language = 6

// hello is said once, over the control connection, by a process that is ready. Its fields stay what they are.
type hello struct {
	Language int    `json:"language"`
	Release  string `json:"release"`
}

// request is answered by a reply. One of its fields after the id is set. Times are in seconds.
type request struct {
	ID    uint64        `json:"id"`
	Open  *openRequest  `json:"open,omitempty"`
	Next  *nextRequest  `json:"next,omitempty"`
	State *stateRequest `json:"state,omitempty"`
	Rows  *rowsRequest  `json:"rows,omitempty"`
	Leave *leaveRequest `json:"leave,omitempty"`
	Close *struct{}     `json:"close,omitempty"`
}

// openRequest opens a session, or finds it where it has no spec, joins it as a rank and begins to stream. What
// client.Config has, too, means the same there; 0 is its default.
type openRequest struct {
	Masters    []string        `json:"masters"`
	Security   security        `json:"security"`
	Session    string          `json:"session"`
	Spec       json.RawMessage `json:"spec,omitempty"`        // pb.Spec, as protobuf's JSON
	SpecText   string          `json:"spec_text,omitempty"`   // or YAML or JSON (docs/reference/spec.md)
	WorkingDir string          `json:"working_dir,omitempty"` // that its relative paths begin at
	// Code are the bytes of the functions that the spec's code identifies.
	Code        []byte `json:"code,omitempty"`
	Rank        uint32 `json:"rank"`
	WorldSize   uint32 `json:"world_size"`
	Share       *share `json:"share,omitempty"`
	Zone        string `json:"zone,omitempty"`
	Compression string `json:"compression,omitempty"` // lz4 or zstd
	Budget      int64  `json:"budget,omitempty"`      // bytes
	// Peek: the session is one rank's look at so many rows, in place of the spec's epochs of its batches. Nobody finds
	// it again: it is deleted when the connection closes, or the session does.
	Peek int64 `json:"peek,omitempty"`
	// Restore has the states that this rank brings, serialised; null: it restores none. The loop begins in BeginsIn
	// where the rank brings none of the states.
	Restore [][]byte `json:"restore"`
	// RestoredLike is one of the states that are restored, where this rank brings none.
	RestoredLike []byte `json:"restored_like,omitempty"`
	// AcceptCodeChange has states be restored though the functions were others then.
	AcceptCodeChange bool    `json:"accept_code_change,omitempty"`
	BeginsIn         uint32  `json:"begins_in,omitempty"`
	ConnectTimeout   float64 `json:"connect_timeout,omitempty"`
	RestoreTimeout   float64 `json:"restore_timeout,omitempty"`
	JoinTimeout      float64 `json:"join_timeout,omitempty"`
	SyncEvery        float64 `json:"sync_every,omitempty"`
	StreamTimeout    float64 `json:"stream_timeout,omitempty"`
	HedgeAfter       float64 `json:"hedge_after,omitempty"`
}

// security is how ports are reached, as client.Security. Paths are absolute.
type security struct {
	Token      string `json:"token,omitempty"` // unless it is in a file
	TokenFile  string `json:"token_file,omitempty"`
	CA         string `json:"ca,omitempty"`
	Cert       string `json:"cert,omitempty"`
	Key        string `json:"key,omitempty"`
	ServerName string `json:"server_name,omitempty"`
	TLS        bool   `json:"tls,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
}

// share is the session's part of the workers.
type share struct {
	Weight     float64 `json:"weight"`
	MinWorkers uint32  `json:"min_workers,omitempty"`
	MaxWorkers uint32  `json:"max_workers,omitempty"`
}

// nextRequest asks for what comes next: a batch, or an epoch's end. The ids of these requests count up from 1; one that
// came before only releases.
type nextRequest struct {
	Wait     float64  `json:"wait"` // how long; 0 or less: nothing is asked for, and the request releases alone
	Released []uint64 `json:"released,omitempty"`
}

// stateRequest asks for the states of the rank as of batches and ends of epochs, by their numbers; 0 is the session's
// beginning.
type stateRequest struct {
	After []uint64 `json:"after"`
}

// rowsRequest asks how many rows an epoch has. A master may take so long.
type rowsRequest struct {
	Wait float64 `json:"wait"`
}

// leaveRequest ends an epoch before its end, if the loop is in it still. The answer is an epoch's end.
type leaveRequest struct {
	Epoch uint32 `json:"epoch"`
}

// reply answers a request: one of its fields from Opening to Done says how.
type reply struct {
	ID   uint64 `json:"id"`
	Next bool   `json:"next,omitempty"` // it answers a nextRequest

	Opening  bool      `json:"opening,omitempty"` // the answer is still to come: said each second
	Opened   *opened   `json:"opened,omitempty"`
	Batch    *batch    `json:"batch,omitempty"`
	EpochEnd *epochEnd `json:"epoch_end,omitempty"`
	Finished bool      `json:"finished,omitempty"` // all epochs are over
	Waiting  *waiting  `json:"waiting,omitempty"`  // nothing has come in the time
	States   []state   `json:"states,omitempty"`
	Rows     *rows     `json:"rows,omitempty"`
	Error    *failure  `json:"error,omitempty"`
	Done     bool      `json:"done,omitempty"`

	Events []event `json:"events,omitempty"`
	// Segments are of memory that batches from this one on lie in: files that come along, and are to be mapped as a
	// whole.
	Segments []shared `json:"segments,omitempty"`

	// Figures stand in a line of their own after the reply, which programs seldom look at.
	Figures *figures `json:"-"`
}

// opened is a session that was joined.
type opened struct {
	BatchSize int64  `json:"batch_size"`
	WorldSize uint32 `json:"world_size"`
	Epochs    uint32 `json:"epochs"`
	Drops     bool   `json:"drops,omitempty"` // last batches
	LastBatch string `json:"last_batch"`      // uneven, drop or pad
	Schema    []byte `json:"schema"`          // of all batches: Arrow's IPC
	// Counts: all rows of the dataset come to this rank, and no op leaves one out or adds one.
	Counts bool `json:"counts,omitempty"`
	// Begun: some rows of the epoch that the loop begins in were read before.
	Begun        bool           `json:"begun,omitempty"`
	RestoredFrom *checkpoint    `json:"restored_from,omitempty"`
	Spec         map[string]any `json:"spec"` // its fingerprint
	// Pinned is the spec, as YAML, pinned to what it was resolved to: whole, unless it has functions by value. Or
	// Unpinned says why it cannot be written.
	Pinned   string `json:"pinned,omitempty"`
	Unpinned string `json:"unpinned,omitempty"`
}

// checkpoint is a named one.
type checkpoint struct {
	Name string `json:"name"`
	Step uint64 `json:"step"`
}

// epochEnd is sent once at the end of each epoch.
type epochEnd struct {
	Number uint64 `json:"number"` // among batches
	Epoch  uint32 `json:"epoch"`  // that the loop is in after it
}

// shared is a segment.
type shared struct {
	ID    uint32 `json:"id"`
	Bytes int64  `json:"bytes"`
}

// batch is in shared memory until it is released by its number.
type batch struct {
	Number uint64 `json:"number"`
	Rows   int64  `json:"rows"`
	Valid  int64  `json:"valid"`
	Epoch  uint32 `json:"epoch"`
	// Places say where the arrays lie: of each column, in the schema's order, what it has of offsets (int32), values,
	// weights (float32). Each has three int64, little-endian: its segment, the bytes from that one's beginning, and its
	// own bytes. One that is empty lies in no segment, which is 0.
	Places []byte `json:"places"`
	// Schema is in Arrow's IPC, where it is another than that of the batch before.
	Schema     []byte      `json:"schema,omitempty"`
	Checkpoint *checkpoint `json:"checkpoint,omitempty"` // has its place after the batch
}

// state is a rank's checkpoint. What is beside the pb.State says what is in it.
type state struct {
	State     []byte `json:"state"`
	Session   string `json:"session"`
	Rank      uint32 `json:"rank"`
	WorldSize uint32 `json:"world_size"`
	Epoch     uint32 `json:"epoch"`
	Rows      int64  `json:"rows"`
}

func newState(s *pb.State, data []byte) state {
	return state{
		State: data, Session: s.GetSession(), Rank: s.GetRank(), WorldSize: s.GetWorldSize(),
		Epoch: s.GetClosedEpochs(), Rows: s.GetRows(),
	}
}

// rows are an epoch's, if it is all planned.
type rows struct {
	Planned *int64 `json:"planned"`
}

// waiting is why nothing comes.
type waiting struct {
	Master  string  `json:"master,omitempty"` // what masters say to the Syncs that fail, if they do
	Idle    float64 `json:"idle"`             // how long ago a row came, or something to stream
	Workers []asked `json:"workers,omitempty"`
	Lapsed  bool    `json:"lapsed,omitempty"` // the lease ran out, so that nothing may be handed over
}

// asked is a worker that is asked for rows of the open epoch, and its newest error.
type asked struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Error   string `json:"error,omitempty"`
}

// kind is which of several a failure is.
type kind string

const (
	kindOther   kind = ""
	kindUsage   kind = "usage"   // the request is wrong, whatever the fleet
	kindMaster  kind = "master"  // a master's, to the call Op: open, join or sync
	kindMissing kind = "missing" // other ranks have not joined a restore
	kindAbsent  kind = "absent"  // other ranks have not joined, and this one waits for them
	kindSession kind = "session" // the master gave the session up
	kindRefused kind = "refused" // every worker refuses a shard
)

// failure is why a session has ended, or was not opened.
type failure struct {
	Kind        kind   `json:"kind"`
	Words       string `json:"words"`
	Code        string `json:"code"` // gRPC's
	Op          string `json:"op,omitempty"`
	NoHandshake bool   `json:"no_handshake,omitempty"` // master: connections are made, but not by TLS
	// CannotYet, of a master: the leader answered, and what it needs, such as storage, fails for now.
	CannotYet bool           `json:"cannot_yet,omitempty"`
	Spec      map[string]any `json:"spec,omitempty"`     // join: the session's fingerprint
	BadData   bool           `json:"bad_data,omitempty"` // session
	Address   string         `json:"address,omitempty"`  // refused: of the worker that said it
	Stranger  bool           `json:"stranger,omitempty"` // refused: it is no worker
	Shard     string         `json:"shard,omitempty"`    // refused
	File      string         `json:"file,omitempty"`     // refused
}

// figures are client.Stats.
type figures struct {
	Epoch           uint32           `json:"epoch"` // of the loop
	Rows            int64            `json:"rows"`
	Batches         int64            `json:"batches"`
	Bytes           int64            `json:"bytes"`
	Dropped         int64            `json:"dropped"`
	SkippedRows     int64            `json:"skipped_rows"`
	Stall           float64          `json:"stall_seconds"`
	LongestStall    float64          `json:"longest_stall_seconds"`
	Compute         float64          `json:"compute_seconds"`
	Failovers       int64            `json:"failovers"`
	Hedges          int64            `json:"hedges"`
	Buffered        int64            `json:"buffered"`
	PeakBuffered    int64            `json:"peak_buffered"`
	Workers         int              `json:"workers"`
	Streams         int              `json:"streams"`
	RowsByWorker    map[string]int64 `json:"rows_by_worker,omitempty"`
	StreamsByWorker map[string]int   `json:"streams_by_worker,omitempty"`
	// Ways has batches from workers, by how they came: memory, link, grpc.
	Ways  map[wire.Way]int64 `json:"ways,omitempty"`
	Cause cause              `json:"cause"`
	// EpochBatches, if the master has said: batches that this rank gets of the loop's epoch.
	EpochBatches *uint64 `json:"epoch_batches,omitempty"`
}

// cause is what holds trainers up, as the master sees it.
type cause struct {
	Bottleneck string `json:"bottleneck,omitempty"` // in lower case
	Words      string `json:"words,omitempty"`
}

// event is a line of the log.
type event struct {
	Name    string         `json:"name,omitempty"` // "": it is for the log alone
	Message string         `json:"message"`
	Level   int            `json:"level"` // log/slog's: -4 debug, 0 information, 4 a warning
	About   map[string]any `json:"about"` // texts, numbers and truths
}
