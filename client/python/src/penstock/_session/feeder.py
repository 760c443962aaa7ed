"""The process that makes batches for the loaders of this one: a trainer written in Go (client/feed/README.md).

It lays them in memory that both have. For fleets elsewhere it is `penstock feed`, which all loaders share; a fleet on
this machine (penstock._onbox) does it itself. It ends when the sockets to it close, and so with this process, however
that dies. Forked children let go of them at once; a fork waits while one is made. All functions may be called from any
thread.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import socket
import subprocess
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from penstock import _binary, _child, errors
from penstock._pb import feed_pb2 as pb

START_TIMEOUT = 60.0  # seconds until the process is ready
END_TIMEOUT = 5.0  # seconds until one that has closed its sockets has ended
_KEPT = ("PENSTOCK_LOG_", "PENSTOCK_STORAGE_")  # the other settings in the environment are of another fleet
_MOST_SEGMENTS = 253  # that come with one message: as many files as Linux takes
_PREFIX = 4  # bytes that say how long a message is


class Connection:
    """That of one session. One thread receives, one sends."""

    def __init__(self, socket_: socket.socket, process: Process) -> None:
        self._socket, self._process = socket_, process
        self._segments: dict[int, Any] = {}  # arrays of all their bytes
        self._lent: set[int] = set()  # numbers of batches whose memory somebody sees
        self._released: list[int] = []
        self._closed = False

    def send(self, request: pb.FeedRequest) -> None:
        """Asks for something."""
        data = request.SerializeToString()
        self._socket.sendall(len(data).to_bytes(_PREFIX, "little") + data)

    def receive(self) -> pb.FeedReply | None:
        """The next answer; None once the process is gone or the connection closed."""
        try:
            head, fds, _, _ = socket.recv_fds(self._socket, _PREFIX, _MOST_SEGMENTS)
            data = _message(self._socket, head) if head else None
        except OSError:
            return None
        if data is None:
            return None
        reply = pb.FeedReply.FromString(data)
        if len(fds) < len(reply.segments):
            raise OSError(errno.EMFILE, "no file descriptor is free for memory of batches; raise `ulimit -n`")
        for segment, fd in zip(reply.segments, fds, strict=True):
            with os.fdopen(fd, "r+b") as file:
                self._segments[segment.id] = np.frombuffer(mmap.mmap(file.fileno(), segment.bytes), np.uint8)
        return reply

    def lend(self, batch: pb.FeedBatch) -> dict[int, memoryview]:
        """The memory that a batch's arrays lie in, by segment. Once nobody sees it any more it is released."""
        leases = {}
        segments = set(batch.array_segments) - {0}
        if not segments:
            self._released.append(batch.number)
            return {}
        self._lent.add(batch.number)
        others = reversed(range(len(segments)))
        for segment in segments:
            lease = self._segments[segment][:]
            weakref.finalize(lease, self._let_go, batch.number, others).atexit = False
            leases[segment] = lease.data  # NumPy's views of a view would forget it
        return leases

    def _let_go(self, number: int, others: Iterator[int]) -> None:
        if next(others):  # one step, for several threads may let go at a time
            return
        self._lent.discard(number)
        self._released.append(number)
        if self._closed and not self._lent:
            self._end()

    def released(self) -> list[int]:
        """Numbers of batches whose memory nobody sees any more."""
        return self._released[:]

    def forget(self, n: int) -> None:
        """Forgets as many of these, the first."""
        del self._released[:n]

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def end(self) -> str:
        """How the process ended."""
        return self._process.end()

    def close(self) -> None:
        """Closes it as soon as nobody sees memory of its batches."""
        self._closed = True
        if not self._lent:
            self._end()

    def _end(self) -> None:
        """Closes it, which ends the session. Who receives gets None."""
        with contextlib.suppress(OSError):  # it may be closed
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _message(socket_: socket.socket, begin: bytes = b"") -> bytes | None:
    """What comes behind its length, of whose bytes some may have come; None if the connection ends before."""
    more = _exactly(socket_, _PREFIX - len(begin))
    return None if more is None else _exactly(socket_, int.from_bytes(begin + more, "little"))


def _exactly(socket_: socket.socket, n: int) -> bytes | None:
    """So many bytes, which come; None if the connection ends before."""
    data = bytearray(n)
    view = memoryview(data)
    while view:
        got = socket_.recv_into(view)
        if got == 0:
            return None
        view = view[got:]
    return bytes(data)


class Process:
    """A penstock command that feeds this process.

    Raises UsageError if the binary is of a release that this package does not go together with.
    """

    def __init__(self, binary: Path, *arguments: str, stdout: int = subprocess.DEVNULL) -> None:
        self._command = f"{binary} {arguments[0]}"
        self._binary = binary
        self._log = _child.Log()
        with _spawning:
            self._control, theirs = socket.socketpair()
            _sockets.add(self._control)
            with theirs:
                self._child = subprocess.Popen(
                    [binary, *arguments], stdin=theirs.fileno(), stdout=stdout, stderr=self._log.file, bufsize=0,
                    env={k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_") or k.startswith(_KEPT)},
                    start_new_session=True,  # the terminal's Ctrl-C is for this process
                )  # fmt: skip
        try:
            self._hear()
        except BaseException:
            self._control.close()
            self._child.kill()
            self._child.wait()
            raise

    def _hear(self) -> None:
        """Waits until it is ready."""
        hello = pb.FeedHello()
        self._control.settimeout(START_TIMEOUT)
        try:
            data = _message(self._control)
            if data is not None:
                hello.MergeFromString(data)
        except TimeoutError as err:
            raise errors.Error(
                f"`{self._command}` did not come up in {START_TIMEOUT:g} s; {self._log.words()}"
            ) from err
        except (OSError, DecodeError):
            pass  # hello stays empty
        self._control.settimeout(None)
        if hello.language != pb.FeedHello.CURRENT:
            release = hello.release or _binary.release(self._binary)
            raise errors.UsageError(
                f"the binary {self._binary} (release {release}) does not go together with this release of the package "
                f"({_binary.version()}): {_binary.ways()}{'' if hello.language else '; ' + self.end()}"
            )

    def connect(self) -> Connection:
        """A connection for a session. Raises OSError if it does not take one."""
        with _spawning:
            ours, theirs = socket.socketpair()
            _sockets.add(ours)
            with theirs:
                socket.send_fds(self._control, [b"s"], [theirs.fileno()])
        return Connection(ours, self)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._child.pid

    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._child.poll() is None

    def end(self) -> str:
        """How it ended, and its log's last words."""
        try:
            status = self._child.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            return "it closed the connection"
        return f"it {_child.ended(status)}; {self._log.words()}"


def connect() -> Connection:
    """A connection for a session, to the process that all sessions of this one share."""
    global _process
    try:
        binary = _binary.find()
    except OSError as err:
        raise errors.UsageError(str(err)) from err
    if binary is None:
        raise errors.UsageError(f"a loader reads by the penstock binary, but {_binary.advice()}")
    with _starting:
        if _process is None or not _process.runs():
            _process = Process(binary, "feed")
        process = _process
    try:
        return process.connect()
    except OSError as err:
        raise errors.Error(f"`{binary} feed` does not take a session: {err}; {process.end()}") from err


# A fork copies the sockets that hold processes alive: it waits while one is made, and the child closes its own.
_spawning = threading.Lock()
_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
_starting = threading.Lock()
_process: Process | None = None


def _after_fork_in_child() -> None:
    global _starting, _process
    _spawning.release()
    for each in list(_sockets):
        each.close()
    _starting, _process = threading.Lock(), None  # the parent's may be locked


os.register_at_fork(before=_spawning.acquire, after_in_parent=_spawning.release, after_in_child=_after_fork_in_child)
