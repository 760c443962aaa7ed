package shared

import (
	"bytes"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMappedMemoryIsTheSame(t *testing.T) {
	m, err := Make(5000, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	mapped, err := Map(m.File(), 5000)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(mapped)
	copy(m.Bytes[4990:], "at the end")
	if len(mapped) != 5000 || !bytes.Equal(mapped, m.Bytes) {
		t.Errorf("%d bytes that end with %q", len(mapped), mapped[4990:])
	}
	other, err := Make(1, func(int64) {})
	if err != nil || other.Number == m.Number || m.Number == 0 {
		t.Errorf("memory %d, then %v: %v", m.Number, other, err)
	}
	other.Free()
	other.Free() // does nothing
	m.Free()
	if mapped[4999] != 'd' {
		t.Error("it went with its maker's")
	}
}

// The runtime does not know of shared memory, and leaves room for it.
func TestMemoryCounts(t *testing.T) {
	const limit = 4 << 30
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	m, err := Make(1<<20, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	m.Use(100)
	m.Use(1000)
	m.Use(10)
	during := debug.SetMemoryLimit(-1)
	m.Free()
	if after := debug.SetMemoryLimit(-1); during != limit-1000 || after != limit {
		t.Errorf("a limit of %d is %d while 1000 bytes are used, then %d", limit, during, after)
	}
}

// What others have mapped counts until the last returns it, whoever freed it before.
func TestLentMemoryCountsUntilItIsReturned(t *testing.T) {
	const limit = 4 << 30
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	var kept int64
	m, err := Make(1<<20, func(bytes int64) { kept += bytes })
	if err != nil {
		t.Fatal(err)
	}
	check := func(after string, wantKept, wantUsed int64) {
		t.Helper()
		if used := limit - debug.SetMemoryLimit(-1); kept != wantKept || used != wantUsed || m.Used() != wantUsed {
			t.Errorf("%s: %d bytes count, %d of them as kept; want %d and %d", after, used, kept, wantUsed, wantKept)
		}
	}
	m.Use(1000)
	m.Lend()
	m.Lend()
	m.Returned()
	check("returned by one", 0, 1000)
	m.Free()
	check("freed", 1000, 1000)
	m.Free()
	check("freed twice", 1000, 1000)
	m.Returned()
	check("returned", 0, 0)
}

// Who maps memory can neither write to it nor cut it short.
func TestMemoryIsSealed(t *testing.T) {
	m, err := Make(8192, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if err := unix.Ftruncate(m.File(), 100); err == nil {
		t.Error("it was cut short")
	}
	if b, err := unix.Mmap(m.File(), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		Unmap(b)
		t.Error("it was mapped to be written to")
	}
}

func TestMapRefuses(t *testing.T) {
	m, err := Make(8192, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	if _, err := Map(m.File(), 8191); err == nil {
		t.Error("more was mapped than may be")
	}
	if _, err := Map(-1, 8192); err == nil {
		t.Error("no file was mapped")
	}
	unsealed, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	if err == nil {
		defer unix.Close(unsealed) //nolint:errcheck // nothing was written by it
		err = unix.Ftruncate(unsealed, 100)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Map(unsealed, 8192); err == nil {
		t.Error("what could become shorter was mapped")
	}
	empty, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		defer unix.Close(empty) //nolint:errcheck // nothing was written by it
		_, err = unix.FcntlInt(uintptr(empty), unix.F_ADD_SEALS, sealed)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Map(empty, 8192); err == nil {
		t.Error("nothing was mapped")
	}
}

// Who maps a workspace can write to it, and not cut it short under its maker.
func TestWorkspaceIsWrittenToByOthers(t *testing.T) {
	m, err := Workspace(8192, func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Free()
	b, err := unix.Mmap(m.File(), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer Unmap(b)
	copy(b[8187:], "there")
	if got := string(m.Bytes[8187:]); got != "there" {
		t.Errorf("its maker reads %q", got)
	}
	for _, size := range []int64{0, 100, 1 << 20} {
		if err := unix.Ftruncate(m.File(), size); err == nil {
			t.Errorf("it has %d bytes now", size)
		}
	}
	if _, err := unix.FcntlInt(uintptr(m.File()), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err == nil {
		t.Error("it was sealed by another")
	}
}
