package cache

// entryMemory is what an entry takes of memory, the policy's part included.
const entryMemory = 160

// page is what files are counted in, as disks do.
const page = 4 << 10

// index is what there is, without pointers: the garbage collector does not look into it.
type index struct {
	of      map[Key]uint32
	entries []entry
	free    []uint32
	stamp   uint32
}

// entry is a file.
type entry struct {
	key     Key
	size    int64 // with its trailer
	wanted  int64 // in Unix nanoseconds; when the file was written, if it was not wanted since the start
	stamp   uint32
	checked bool // by all its checksums, in this process
}

// cost is what a file takes of the disk.
func (e entry) cost() int64 { return cost(e.size) }

func cost(size int64) int64 { return (size + page - 1) / page * page }

func newIndex() index { return index{of: map[Key]uint32{}} }

// add returns the number of an entry, whose key has none yet. A number is used again after remove; a stamp tells its
// users apart.
func (x *index) add(e entry) uint32 {
	x.stamp++
	e.stamp = x.stamp
	n := uint32(len(x.entries))
	if last := len(x.free) - 1; last >= 0 {
		n, x.free = x.free[last], x.free[:last]
		x.entries[n] = e
	} else {
		x.entries = append(x.entries, e)
	}
	x.of[e.key] = n
	return n
}

func (x *index) remove(n uint32) {
	delete(x.of, x.entries[n].key)
	x.entries[n] = entry{}
	x.free = append(x.free, n)
}
