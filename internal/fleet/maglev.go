package fleet

import (
	"cmp"
	"slices"
)

// Maglev maps keys to members so that each member gets an almost equal share, and few keys move when a member
// comes or goes (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016).
// It is immutable.
type Maglev struct {
	members []Member
	table   []uint16
}

// tableSize is a prime well above the number of members, as the paper asks.
const tableSize = 65_537

// maxMembers each have a slot of the table, and a number that fits it.
const maxMembers = 1<<16 - 1

// NewMaglev builds the table over members, in any order. Of more than 65,535 it takes the first by name.
func NewMaglev(members []Member) *Maglev {
	m := &Maglev{members: slices.Clone(members)}
	slices.SortFunc(m.members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	m.members = m.members[:min(len(m.members), maxMembers)]
	n := len(m.members)
	if n == 0 {
		return m
	}
	offset, skip, next := make([]uint64, n), make([]uint64, n), make([]uint64, n)
	for i, mem := range m.members {
		h := hash(mem.Name)
		offset[i] = h % tableSize
		skip[i] = (h>>32)%(tableSize-1) + 1
	}
	m.table = make([]uint16, tableSize)
	taken := make([]bool, tableSize)
	for filled, i := 0, 0; filled < tableSize; i = (i + 1) % n {
		slot := (offset[i] + next[i]*skip[i]) % tableSize
		for taken[slot] {
			next[i]++
			slot = (offset[i] + next[i]*skip[i]) % tableSize
		}
		taken[slot] = true
		m.table[slot] = uint16(i)
		next[i]++
		filled++
	}
	return m
}

// Candidates returns up to n different members for a key, best first.
func (m *Maglev) Candidates(key string, n int) []Member {
	n = min(n, len(m.members))
	out := make([]Member, 0, n)
	picked := make([]uint16, 0, n)
	for slot := hash(key) % tableSize; len(out) < n; slot = (slot + 1) % tableSize {
		if i := m.table[slot]; !slices.Contains(picked, i) {
			picked = append(picked, i)
			out = append(out, m.members[i])
		}
	}
	return out
}

// hash is FNV-1a with murmur3's finisher: the same in every process.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
