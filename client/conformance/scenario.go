package conformance

import (
	"bytes"
	"embed"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/penstock-ml/penstock/api/position"
)

//go:embed scenarios/*.yaml
var files embed.FS

// Scenario is one file of scenarios/.
type Scenario struct {
	Name    string `yaml:"-"` // of its file
	Doc     string // the rule that it tests
	Dataset Dataset
	Spec    Spec
	Master  Master
	Workers map[string]Worker // by name, which is the order in which tickets name them
	Trainer Trainer
	Steps   []Step
	Expect  Outcome
}

// Dataset is given in full or made up: rows of each window of each shard.
type Dataset struct {
	Shards      [][]int
	BlockShards int `yaml:"block_shards"` // 3 unless set
	Bad         int // workers leave one row out for about so many, because of its bytes
	Random      *struct {
		Seed   uint64
		Shards int
	}
}

// Spec is the part of the spec that clients act upon.
type Spec struct {
	BatchSize int64  `yaml:"batch_size"`
	Drop      bool   // the last, short batches of an epoch
	Pad       bool   // last batches
	Lanes     uint32 // order deterministic, in so many
	Epochs    uint32
	Skip      uint32 // on_error: row groups, which are the dataset's windows
}

// Master is how a master answers.
type Master struct {
	Streams uint32        // 2 unless set
	Run     int           // shards granted at once; 2 unless set
	Lease   time.Duration // 30 s unless set
	Answers []Answer      // rules, the first that fits counts
	Future  bool          // answers have fields that no client knows
	// Masters are the names of those whom the client is told of: m alone unless set. Of the others, Followers lists
	// who refers to whom; nobody listens where the rest would be.
	Masters   []string
	Followers map[string]string
}

// Answer is an error of a master.
type Answer struct {
	Call    string // open, join or sync; any unless set
	Code    string // such as INVALID_ARGUMENT
	Message string
	Lost    bool // the call is applied all the same
	Times   int  // how often; always unless set
	OneIn   int  `yaml:"one_in"` // at random
}

// Worker is how a worker behaves.
type Worker struct {
	// Kind is empty, or: dead (nobody listens), tls (it speaks TLS, which the client does not), deaf (it accepts
	// connections and never says a word), stranger (a gRPC server that is no worker).
	Kind    string
	Cut     int  // rows of a record; 8 unless set
	Without int  // how many of the last columns its schema lacks
	Grpc    bool // batches go by gRPC: it has no links
	Faults  []Fault
}

// Fault is a mistake at certain records: those that fit all that is set.
type Fault struct {
	Epoch *uint32
	Shard *int   // of the epoch
	K     uint64 // first row in its window, at least
	After int    // records that the stream sent before, at least
	Times int    // how often; always unless set
	OneIn int    `yaml:"one_in"` // at random

	// Do is a status code such as UNAVAILABLE, or: end (the stream ends as if complete), silence, late (the record
	// comes For later), twice (the record comes twice), overlap (it begins with rows that were sent), gap (it lacks its
	// first row), disagree (it says that one bad row more was left out before it than was), garbage (its app_metadata
	// cannot be read), miscount (its app_metadata has the wrong number of rows),
	// future (its app_metadata has a field that no client knows), width (its int64 values have 5 bytes each), short
	// (the buffers of its int64 values lack a byte).
	Do      string
	For     time.Duration
	Message string
}

// Trainer is how clients are configured.
type Trainer struct {
	Budget         int64         // 64 MiB unless set
	SyncEvery      time.Duration `yaml:"sync_every"`      // 100 ms unless set
	StreamTimeout  time.Duration `yaml:"stream_timeout"`  // 20 s unless set
	HedgeAfter     time.Duration `yaml:"hedge_after"`     // 20 s unless set
	ConnectTimeout time.Duration `yaml:"connect_timeout"` // 20 s unless set
	Timeout        time.Duration // 60 s unless set
	World          uint32        // 1 unless set
}

// Step is one of its fields.
type Step struct {
	Open   *OpenStep
	Next   *NextStep
	Read   *ReadStep
	Leave  *LeaveStep
	State  *StateStep
	Stats  *StatsStep
	Close  *On
	Kill   *On
	Master *MasterStep
	Worker *WorkerStep
	Wait   *WaitStep
	Renew  *RenewStep
}

// On names a trainer, a unless set. A trainer is a process, which may be any rank.
type On struct{ Trainer string }

// OpenStep opens the session as a rank.
type OpenStep struct {
	On        `yaml:",inline"`
	Rank      uint32
	World     uint32   // the scenario's unless set
	Restore   []string // names of states
	Restoring bool     // takes part in a collective restore without bringing states
	Start     bool     // does not wait for the answer, which a later step of this trainer does
	Error     *Failure
}

// NextStep asks for batches.
type NextStep struct {
	On    `yaml:",inline"`
	Count int // 1 unless set
	// Pause is how long the training loop takes before it asks for the first of them.
	Pause time.Duration
	// Blocks: there is no batch for so long. The request stays, for the next step to wait for.
	Blocks time.Duration
	// Checkpoint is what the last of the batches says; the others, and it unless this is set, say of none.
	Checkpoint *Checkpoint
	Error      *Failure
}

// ReadStep reads trainers to their end, all at once.
type ReadStep struct {
	Trainers []string // a alone unless set
	// InStep: each asks for its next batch when all have the one before, and all reach an epoch's end at once.
	InStep bool `yaml:"in_step"`
	Count  int  // batches in step; to the end unless set
	Error  *Failure
}

// LeaveStep has a trainer leave an epoch before its end.
type LeaveStep struct {
	On    `yaml:",inline"`
	Epoch uint32
}

// StateStep takes a state, and checks that it consumed what was handed over.
type StateStep struct {
	On       `yaml:",inline"`
	As       string
	After    int              // as of a batch of this open, from 1; the newest unless set
	Consumed []string         // the intervals, byte for byte
	Closed   *uint32          // epochs
	Handed   *uint64          // batches of the epoch
	Skipped  *uint32          // row groups
	Start    *uint32          // the block at which planning may begin
	Departed map[uint32]int64 // how many rows each rank that left was given
}

// StatsStep checks a client's figures.
type StatsStep struct {
	On           `yaml:",inline"`
	Failovers    *int64
	MinFailovers int64 `yaml:"min_failovers"`
	Hedges       *int64
	MinHedges    int64 `yaml:"min_hedges"`
	Dropped      *int64
	Skipped      *int64 // parts of row groups that the client said are left out
	Budget       bool   // never more was buffered than the budget
	Full         bool   // half of the budget is in use
	Pace         *Pace
	Stalled      time.Duration // at least, as the client and the master know; and nothing of it was compute time
}

// Pace is how fast the client told the master that its loop could go on.
type Pace struct {
	Steps uint32        // that it is of; 0: too few to tell
	Rows  float64       // of a batch
	Below time.Duration // a pause that is not in it
}

// MasterStep changes the master. Answers replace the rules that there were, if there is any field besides.
type MasterStep struct {
	Answers    []Answer
	Heals      bool        // no more rules
	Freeze     *bool       // grants and plans nothing
	Plan       int         // order deterministic: so many more blocks
	Checkpoint *Checkpoint // is ordered of all ranks; the step is that of their batches, all of one start
	Release    bool        // asks for all that is held
	Revoke     []string    // takes intervals from whoever holds them, as if leases had ended
	Expire     *uint32     // the lease of a rank: all that it holds goes back
	Fail       string      // the session, for a reason
	Candidates []string    // the workers that tickets name
	Stop       bool        // nobody listens
	Start      bool
}

// WorkerStep changes a worker.
type WorkerStep struct {
	Name        string
	Stop, Start bool
	Heals       bool // no more faults
	Without     int  // columns that its schema lacks
}

// WaitStep waits for a condition.
type WaitStep struct {
	On       `yaml:",inline"`
	Synced   bool          // the trainer told all that was handed over, and heard the master's present will
	Sent     int           // rows, by all workers
	Still    time.Duration // workers send no more, for so long
	Closed   uint32        // epochs, by the master
	Returned []string      // these intervals, and no others, came back to the master
	Left     bool          // the trainer's rank
	Ordered  uint64        // step of the checkpoint that the master asks for
	Taken    uint64        // step of the checkpoint for which the trainer brought its state, which is checked
	Batches  int           // of the trainer before that step; as many as taken unless set
	Lapsed   bool          // the lease ended: so long ago the master answered a Sync
}

// RenewStep starts the fleet anew, with a master that knows nothing; the trainers go on from states.
type RenewStep struct {
	States []string
}

// Failure is how a step fails.
type Failure struct {
	Kind  string
	Words []string // that stand in the message
}

// Outcome is what holds in the end.
type Outcome struct {
	Rows  string // all: exactly once, unless set; some: at most once
	Short bool   // batches may be short before an epoch's end: rows came late
}

// Load reads all scenarios.
func Load() ([]*Scenario, error) {
	entries, err := files.ReadDir("scenarios")
	if err != nil {
		return nil, err
	}
	var out []*Scenario
	for _, e := range entries {
		text, err := files.ReadFile(path.Join("scenarios", e.Name()))
		if err != nil {
			return nil, err
		}
		sc := &Scenario{Name: strings.TrimSuffix(e.Name(), ".yaml")}
		if err := yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField()).Decode(sc); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		sc.defaults()
		out = append(out, sc)
	}
	return out, nil
}

func (sc *Scenario) defaults() {
	set(&sc.Dataset.BlockShards, 3)
	set(&sc.Spec.Epochs, 1)
	set(&sc.Master.Streams, 2)
	set(&sc.Master.Run, 2)
	set(&sc.Master.Lease, 30*time.Second)
	if sc.Master.Masters == nil {
		sc.Master.Masters = []string{"m"}
	}
	for name, w := range sc.Workers {
		set(&w.Cut, 8)
		sc.Workers[name] = w
	}
	set(&sc.Trainer.Budget, 64<<20)
	set(&sc.Trainer.SyncEvery, 100*time.Millisecond)
	set(&sc.Trainer.StreamTimeout, 20*time.Second)
	set(&sc.Trainer.HedgeAfter, 20*time.Second)
	set(&sc.Trainer.ConnectTimeout, 20*time.Second)
	set(&sc.Trainer.Timeout, time.Minute)
	set(&sc.Trainer.World, 1)
	set(&sc.Expect.Rows, "all")
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// parseSet reads intervals in the way that they are printed.
func parseSet(texts []string) (position.Set, error) {
	var set []position.Interval
	for _, text := range texts {
		var iv position.Interval
		f, t := &iv.From, &iv.To
		_, err := fmt.Sscanf(text, "[%d/%d/%d/%d+%d, %d/%d/%d/%d+%d)",
			&f.Epoch, &f.Block, &f.Shard, &f.Window, &f.K, &t.Epoch, &t.Block, &t.Shard, &t.Window, &t.K)
		if err != nil {
			return nil, fmt.Errorf("interval %q: %w; expected one such as [0/0/0/0+0, 0/0/0/2+3)", text, err)
		}
		set = append(set, iv)
	}
	return position.NewSet(set...), nil
}
