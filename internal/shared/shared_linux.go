package shared

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fixed memory cannot become shorter, which would kill who reads beyond its end. What is sealed, too, cannot be written
// to by whoever maps it from now on.
const (
	fixed  = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	sealed = fixed | unix.F_SEAL_FUTURE_WRITE
)

// Make returns n bytes, all zero, which take memory when they are written to. Free them. kept is told how many bytes
// more, or fewer, others have mapped of what was freed.
func Make(n int, kept func(bytes int64)) (*Memory, error) {
	return create(n, unix.PROT_READ|unix.PROT_WRITE, sealed, kept)
}

// Workspace returns n bytes that whoever maps them may write to, and that are only read here: they may change at any
// time. It is like Make's memory else.
func Workspace(n int, kept func(bytes int64)) (*Memory, error) {
	return create(n, unix.PROT_READ, fixed, kept)
}

// create makes memory that is mapped here in a way, and then gets seals.
func create(n, access, seals int, kept func(bytes int64)) (*Memory, error) {
	file, err := unix.MemfdCreate(Name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", os.NewSyscallError("memfd_create", err))
	}
	m := &Memory{file: file, kept: kept, Number: made.Add(1)}
	if err = unix.Ftruncate(file, int64(n)); err == nil {
		m.Bytes, err = unix.Mmap(file, 0, n, access, unix.MAP_SHARED)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		m.Free()
		return nil, fmt.Errorf("shared memory of %d bytes: %w", n, err)
	}
	return m, nil
}

// Map maps the memory of a file that another process has sent, of up to maxBytes bytes, to be read. The file stays the
// caller's. It fails for a file that could become shorter.
func Map(file, maxBytes int) ([]byte, error) {
	seals, err := unix.FcntlInt(uintptr(file), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return nil, errors.Join(errors.New("shared memory could become shorter"), err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(file, &stat); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	if stat.Size <= 0 || stat.Size > int64(maxBytes) {
		return nil, fmt.Errorf("shared memory of %d bytes; there may be %d", stat.Size, maxBytes)
	}
	bytes, err := unix.Mmap(file, 0, int(stat.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	_ = unix.Madvise(bytes, unix.MADV_DONTFORK) // else a child that lives on keeps the memory
	return bytes, nil
}

// Unmap ends what Map began.
func Unmap(bytes []byte) { _ = unix.Munmap(bytes) } // fails only for what is not mapped

// File is the file of memory, to be sent to another process. It is closed by Free.
func (m *Memory) File() int { return m.file }

// Free gives the memory back, but for what it is lent to, which has it until it is returned. A second call does
// nothing.
func (m *Memory) Free() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Bytes != nil {
		Unmap(m.Bytes)
		m.Bytes = nil
		if m.lent > 0 {
			m.kept(m.used)
		} else {
			m.gone()
		}
	}
	if m.file >= 0 {
		_ = unix.Close(m.file) // nothing was written by it
		m.file = -1
	}
}
