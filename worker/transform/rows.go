package transform

import "github.com/cespare/xxhash/v2"

// Rows says which rows a window holds, and with what randomness goes by.
type Rows struct {
	Seed  int64  // of the program
	Epoch uint32 // as in positions
	File  uint64 // Hash of the file's URI
	First int64  // row of the file at which the window starts
	N     int    // rows of the window
	// Chosen lists the rows of the window that vectors hold, in their order; nil: all.
	Chosen []int32
}

// Of is the row of the window that row i of the vectors is.
func (r Rows) Of(i int) int {
	if r.Chosen != nil {
		return int(r.Chosen[i])
	}
	return i
}

// Row is the row of the file that row i of the vectors is.
func (r Rows) Row(i int) int64 { return r.First + int64(r.Of(i)) }

// Hash is a file's URI as it goes into Rows: its XXH64 with seed 0.
func Hash(uri string) uint64 { return xxhash.Sum64String(uri) }

// golden is 2^64 divided by the golden ratio, the increment of SplitMix64.
const golden = 0x9e3779b97f4a7c15

// mix is the output function of SplitMix64 (variant 13 of Stafford).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Draws is a reproducible sequence of random numbers, one for each row of a file.
type Draws struct {
	key   uint64
	first int64
}

// Draws returns the sequence of (program seed, epoch, file, seed). In full, with all sums modulo 2^64, row r of the
// file draws mix(key + (r+1)*golden), which is SplitMix64 seeded by
//
//	key = mix(mix(mix(mix(Seed) + Epoch) + File) + seed)
//
// Ops that use randomness pass a seed parameter of their own, so that two of them can be made independent.
func (r Rows) Draws(seed uint64) Draws {
	return Draws{mix(mix(mix(mix(uint64(r.Seed))+uint64(r.Epoch))+r.File) + seed), r.First}
}

// At is the number drawn by row i of the window, uniform in [0, 2^64).
func (d Draws) At(i int) uint64 { return mix(d.key + uint64(d.first+int64(i)+1)*golden) }
