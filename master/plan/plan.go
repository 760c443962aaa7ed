// Package plan decides what a session reads, in which order and in which pieces: listing -> order -> blocks ->
// shards. The master's service feeds it listings and footers, stores the blocks it makes (master/store) and
// grants their shards (master/session). Everything here is a pure function of its arguments, without network
// and clock, so that any master plans a block alike; arguments are not changed, and results may share messages
// with them. Safe for concurrent use.
package plan

import (
	"cmp"
	"crypto/sha256"

	"github.com/penstock-ml/penstock/api/pb"
)

// Version names the planner's rules. A session is bound to the version that opened it, because blocks planned
// later must meet the earlier ones: any change to order, blocks, shards or windows needs a new one.
const Version = 4

// Config says how finely a dataset is cut. Zero fields mean the default.
type Config struct {
	// BlockBytes is the listed size up to which files make a block (1 GiB).
	BlockBytes int64
	// FirstBlockBytes is the same for the first block of an epoch, small so that the first batch waits for few
	// footers (64 MiB).
	FirstBlockBytes int64
	// BlockFiles bounds the files of a block, however small they are (1024). The first block's bound is smaller
	// in proportion to its bytes.
	BlockFiles int64
	// ShardBytes is the decoded size up to which row groups make a shard (64 MiB).
	ShardBytes int64
	// WindowBytes is the decoded size that a window is made for (4 MiB).
	WindowBytes int64
}

// ConfigFromProto reads the configuration that a session was opened with.
func ConfigFromProto(m *pb.PlannerConfig) Config {
	return Config{
		BlockBytes:      m.GetBlockBytes(),
		FirstBlockBytes: m.GetFirstBlockBytes(),
		BlockFiles:      m.GetBlockFiles(),
		ShardBytes:      m.GetShardBytes(),
		WindowBytes:     m.GetWindowBytes(),
	}.withDefaults()
}

// Proto returns c, with its defaults filled in, as it is kept with a session.
func (c Config) Proto() *pb.PlannerConfig {
	c = c.withDefaults()
	return &pb.PlannerConfig{
		BlockBytes:      c.BlockBytes,
		FirstBlockBytes: c.FirstBlockBytes,
		BlockFiles:      c.BlockFiles,
		ShardBytes:      c.ShardBytes,
		WindowBytes:     c.WindowBytes,
	}
}

func (c Config) withDefaults() Config {
	return Config{
		BlockBytes:      orDefault(c.BlockBytes, 1<<30),
		FirstBlockBytes: orDefault(c.FirstBlockBytes, 64<<20),
		BlockFiles:      orDefault(c.BlockFiles, 1024),
		ShardBytes:      orDefault(c.ShardBytes, 64<<20),
		WindowBytes:     orDefault(c.WindowBytes, 4<<20),
	}
}

// Digest names c and the version of the planner: positions in sessions of the same program and dataset mean the same
// rows if their digests are the same.
func (c Config) Digest() []byte {
	c = c.withDefaults()
	h := sha256.New()
	for _, v := range []int64{Version, c.BlockBytes, c.FirstBlockBytes, c.BlockFiles, c.ShardBytes, c.WindowBytes} {
		writeUint(h, uint64(v))
	}
	return h.Sum(nil)
}

func orDefault(v, def int64) int64 { return cmp.Or(max(v, 0), def) }
