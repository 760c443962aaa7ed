package dataset

// golden is splitmix64's increment.
const golden = 0x9e3779b97f4a7c15

// mix is splitmix64's finaliser.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// cell is the state of the random numbers of one row's value of one column. It depends on nothing else, so that a
// row is the same in whatever file it lands.
func cell(row, col int) uint64 { return mix(uint64(row)*golden + uint64(col)*0xd1342543de82ef95) }

const (
	quantileBits = 12
	lengthBits   = 10
	null         = -1 // as a length: the row is null
)

// sampler draws the values of one column by tables of its inverse distribution function. The tables are made with
// float64 operations that every architecture rounds alike.
type sampler struct {
	// ranks[i] is the rank at quantile i; a draw falls between two neighbours.
	ranks [1<<quantileBits + 1]uint32
	// lengths[i] is the length of the list at quantile i; null for null rows. Of columns without lists, null or 1.
	lengths [1 << lengthBits]int16
	salt    uint64
}

func newSamplers(columns []Column) []*sampler {
	samplers := make([]*sampler, len(columns))
	for i, c := range columns {
		s := &sampler{salt: mix(uint64(i) + 1)}
		if c.Ranks > 0 {
			s.fillRanks(c)
		}
		s.fillLengths(c)
		samplers[i] = s
	}
	return samplers
}

func (s *sampler) fillRanks(c Column) {
	total := 0.0
	for r := 1; r <= c.Ranks; r++ {
		total += 1 / float64(r+c.Offset)
	}
	const n = 1 << quantileBits
	sum, next := 0.0, 0
	for r := 1; r <= c.Ranks; r++ {
		sum += 1 / float64(r+c.Offset)
		for next < n && float64(float64(next)*total) < float64(sum*n) {
			s.ranks[next] = uint32(r)
			next++
		}
	}
	for ; next <= n; next++ {
		s.ranks[next] = uint32(c.Ranks)
	}
}

func (s *sampler) fillLengths(c Column) {
	const n = 1 << lengthBits
	for i := range s.lengths {
		s.lengths[i] = 1
	}
	for i := range c.Null {
		s.lengths[i] = null
	}
	if c.Kind != Sparse {
		return
	}
	for i := range c.Empty {
		s.lengths[c.Null+i] = 0
	}
	// Of the lists that have at least k elements, Longer in 1024 have more.
	from := c.Null + c.Empty
	for k := 2; k <= c.Longest; k++ {
		from = n - (n-from)*c.Longer/n
		for i := from; i < n; i++ {
			s.lengths[i] = int16(k)
		}
	}
}

// length draws null or the number of values of a row.
func (s *sampler) length(draw uint64) int { return int(s.lengths[draw>>(64-lengthBits)]) }

// rank draws a rank, from 1.
func (s *sampler) rank(draw uint64) uint32 {
	q := draw >> (64 - quantileBits)
	low, high := s.ranks[q], s.ranks[q+1]
	return low + uint32(uint64(high-low)*(draw&0xffffffff)>>32)
}

// id turns a rank into what such ids look like in practice: a 32-bit hash.
func (s *sampler) id(rank uint32) int64 { return int64(mix(uint64(rank)^s.salt) >> 32) }
