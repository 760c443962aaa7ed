package store

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestEmbeddedSweepsSocketFolders holds that what a killed process left goes, and that what is another one's stays.
func TestEmbeddedSweepsSocketFolders(t *testing.T) {
	temporary, err := os.MkdirTemp("", "x") // a socket's path is short
	check(t, err)
	defer os.RemoveAll(temporary)
	t.Setenv("TMPDIR", temporary)
	folder := func(name string, files ...string) string {
		t.Helper()
		dir := filepath.Join(temporary, name)
		check(t, os.Mkdir(dir, 0o700))
		for _, f := range files {
			check(t, os.WriteFile(filepath.Join(dir, f), nil, 0o600))
		}
		return dir
	}
	killed := folder(socketFolders+"1", aliveLock, "client.sock")
	stay := []string{folder(socketFolders + "2"), folder(socketFolders+"3", aliveLock), folder("other", aliveLock)}
	lock, err := fileutil.TryLockFile(filepath.Join(stay[1], aliveLock), os.O_WRONLY, 0o600)
	check(t, err)
	defer lock.Close()
	own := etcd(t).sockets
	second := etcd(t).sockets
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("the folder of a process that was killed is left: %v", err)
	}
	for _, dir := range append(stay, own, second) {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	}
}

// TestSweepsBesideStarts holds that sweeps that come between the steps of a start do not fail it, and leave it its
// folder.
func TestSweepsBesideStarts(t *testing.T) {
	temporary := t.TempDir()
	ended := make(chan struct{})
	var sweepers sync.WaitGroup
	for range 4 {
		sweepers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					sweepSockets(temporary)
				}
			}
		})
	}
	for range 500 {
		e := &Embed{}
		check(t, e.makeSockets(temporary))
		if _, err := os.Stat(filepath.Join(e.sockets, aliveLock)); err != nil {
			t.Errorf("a folder that was made: %v", err)
		}
		check(t, os.RemoveAll(e.sockets))
		check(t, e.alive.Close())
	}
	close(ended)
	sweepers.Wait()
}

// TestTheLastWordsOfAnEmbeddedEtcd holds that the log names the folder whose disk is full, and what to do.
func TestTheLastWordsOfAnEmbeddedEtcd(t *testing.T) {
	var logged bytes.Buffer
	core := (&logCore{logger: slog.New(slog.NewTextHandler(&logged, nil)), folder: "/data"}).With(nil)
	entry := zapcore.Entry{Level: zapcore.PanicLevel, Message: "failed to save Raft hard state and entries"}
	check(t, core.Write(entry,
		[]zapcore.Field{zap.Error(&os.PathError{Op: "write", Path: "0.wal", Err: syscall.ENOSPC})}))
	for _, want := range []string{
		entry.Message, "its disk is full: free space there, and start this master again",
		"folder=/data",
	} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log lacks %q: %s", want, logged.String())
		}
	}
	logged.Reset()
	entry.Level = zapcore.FatalLevel
	check(t, core.Write(entry, []zapcore.Field{zap.Error(os.ErrPermission)}))
	if !strings.Contains(logged.String(), "see that its folder's disk is well") ||
		strings.Contains(logged.String(), "full") {
		t.Errorf("another cause: %s", logged.String())
	}
}
