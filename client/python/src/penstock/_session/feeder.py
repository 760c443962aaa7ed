"""The process that makes batches for the loaders of this one: a trainer written in Go (docs/internals/feed.md).

It lays them in memory that both have. For fleets elsewhere it is `penstock feed`, which all loaders share; a fleet on
this machine (penstock._onbox) does it itself. It ends when the sockets to it close, and so with this process, however
that dies. Forked children let go of them at once; a fork waits while one is made. All functions may be called from any
thread.
"""

from __future__ import annotations

import array
import contextlib
import enum
import functools
import json
import mmap
import os
import selectors
import socket
import struct
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from penstock import _binary, _child, _signals, errors

LANGUAGE = 6  # of the process and this package
START_TIMEOUT = 60.0  # seconds until the process is ready
END_TIMEOUT = 5.0  # seconds until one that has closed its sockets has ended
# The other settings in the environment are of another fleet.
KEPT = ("PENSTOCK_LOG_", "PENSTOCK_STORAGE_", "PENSTOCK_CATALOG_", "PENSTOCK_CACHE_")
_MOST_SEGMENTS = 253  # that come with one message: as many files as Linux takes
_PREFIX = 4  # bytes that say how long a message is
_ROOM = 1 << 16  # bytes for what comes: most messages
_ANCILLARY = socket.CMSG_SPACE(_MOST_SEGMENTS * 4)  # bytes for files that come along

_Piece: TypeAlias = tuple[bytes, list[tuple[int, int, bytes]], int, Any]
"""What one call received: bytes, and what came along."""

Message: TypeAlias = dict[str, Any]
"""A request or an answer (docs/internals/feed.md)."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class Silence(enum.Enum):
    """What comes in place of an answer."""

    YET = enum.auto()  # none has come in the time
    GONE = enum.auto()  # none can come any more


class Answer(NamedTuple):
    """An answer that was received, and its number among them."""

    number: int
    message: Message
    figures: bytes  # of the session, in JSON


class Connection:
    """That of one session. It belongs to one thread at a time, whom an interrupt anywhere makes lose nothing.

    Code that runs within any of its calls, as handlers of signals do, may call it in turn.
    """

    _lending: ClassVar[set[Connection]] = set()  # those of batches that somebody sees, which must stay

    def __init__(self, socket_: socket.socket, process: Process) -> None:
        self._socket, self._process = socket_, process
        self._patience = 0.0  # seconds that the socket waits; 0: for ever
        self._pieces: list[_Piece] = []  # received, and not taken; it stays the same list
        self._taken = 0  # answers
        self._segments: dict[int, Any] = {}  # arrays of all their bytes
        self._lent: dict[int, list[weakref.ref[Any]]] = {}  # what batches lie in whose memory somebody sees
        self._released: list[int] = []
        self.closed = False

    def send(self, request: Message) -> None:
        """Asks for something. That nobody hears it shows in what is received."""
        data = _encode(request).encode()
        try:
            self._socket.sendall(len(data).to_bytes(_PREFIX, "little") + data)
        except OSError as err:
            if not _signals.is_of_call(err):
                raise

    def receive(self, patience: float) -> Answer | Silence:
        """The oldest answer that was not taken, which it stays until it is. It is waited for so many seconds."""
        number = self._taken  # before it is looked at: code that runs within this call may take it
        try:
            if patience != self._patience:
                wait = struct.pack("@ll", int(patience), int(patience % 1 * 1e6))
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)
                self._patience = patience
        except OSError as err:
            if not _signals.is_of_call(err):
                raise
            return Silence.GONE
        data = _received(self._socket, self._pieces)
        if isinstance(data, Silence):
            return data
        said, _, figures = data.partition(b"\n")
        message: Message = json.loads(said)
        for i, segment in enumerate(message.get("segments", ())):
            self._map(number, i, segment["id"], segment["bytes"])
        return Answer(number, message, figures)

    def _map(self, number: int, i: int, segment: int, size: int) -> None:
        """Maps an answer's i-th segment, unless that was done before an interrupt, or within this call."""
        if segment in self._segments:
            return
        fds = _descriptors(self._pieces)
        if i >= len(fds) and self._taken == number:
            raise errors.Error("no file descriptor is free for memory of batches; raise `ulimit -n`")
        try:
            mapped = mmap.mmap(fds[i], size) if i < len(fds) else None
        except OSError as err:
            if not _signals.is_of_call(err):
                raise
            if self._taken == number:
                raise errors.Error(
                    f"the memory of batches cannot be mapped: {err}; raise `ulimit -v`, then read on"
                ) from err
            return
        if mapped is not None and self._taken == number:  # else it is another file's by now
            self._segments.setdefault(segment, np.frombuffer(mapped, np.uint8))

    def take(self, answer: Answer) -> None:
        """Goes on after an answer, unless code that ran within another call has done so."""
        if answer.number != self._taken:
            return
        n = len(answer.message.get("segments", ()))
        data, fds = _data(self._pieces), _descriptors(self._pieces)
        rest, others = data[_end(data) :], fds[n:]
        left: list[_Piece] = [(rest, _ancillary(others), 0, None)] if rest or others else []
        if answer.number == self._taken:
            self._taken += 1
            self._pieces[:] = left
            for fd in fds[:n]:
                os.close(fd)

    def memory(self, batch: Message) -> dict[int, memoryview]:
        """The memory that a batch's arrays lie in, by segment."""
        # NumPy's views of a view would forget it.
        return {segment: self._segments[segment][:].data for segment in set(batch["places"][::3]) - {0}}

    def lend(self, number: int, memory: Mapping[int, memoryview]) -> None:
        """Has a batch's memory released once nobody sees it any more. A second call does nothing."""
        if not memory:
            self._released.append(number)
            return
        if number not in self._lent:
            gone = functools.partial(self._let_go, number)
            self._lent[number] = [weakref.ref(view.obj, gone) for view in memory.values()]
        self._lending.add(self)

    def _let_go(self, number: int, _: object, is_over: Callable[[], bool] = sys.is_finalizing) -> None:
        refs = self._lent.get(number)
        # Several threads may let go at a time, and a number that is released twice is released.
        if is_over() or refs is None or any(ref() is not None for ref in refs):
            return
        self._lent.pop(number, None)
        self._released.append(number)
        if not self._lent:
            self._lending.discard(self)
        if self._lent:  # since a moment ago, by another thread
            self._lending.add(self)
        elif self.closed:
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
        self.closed = True
        if not self._lent:
            self._end()

    def _end(self) -> None:
        """Closes it, which ends the session. Who receives gets None."""
        with contextlib.suppress(OSError):  # it may be closed
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._segments.clear()


def _received(socket_: socket.socket, pieces: list[_Piece]) -> bytes | Silence:
    """The first message of what comes, all of which is kept."""
    while (message := _message(pieces)) is None:
        try:
            # One C call receives and keeps: an interrupt comes before it or after it.
            pieces.extend(map(socket_.recvmsg, (_ROOM,), (_ANCILLARY,)))
        except OSError as err:
            if not _signals.is_of_call(err):
                raise
            return Silence.YET if isinstance(err, BlockingIOError) else Silence.GONE
        if pieces[-1:] and not pieces[-1][0]:
            return Silence.GONE
    return message


def _data(pieces: list[_Piece]) -> bytes:
    return pieces[0][0] if len(pieces) == 1 else b"".join(data for data, *_ in pieces)


def _end(data: bytes) -> int:
    """Where the first message ends."""
    return _PREFIX + int.from_bytes(data[:_PREFIX], "little")


def _message(pieces: list[_Piece]) -> bytes | None:
    """The first message, once all of it has come."""
    if not pieces or sum(len(data) for data, *_ in pieces) < max(_PREFIX, _end(pieces[0][0])):
        return None
    data = _data(pieces)
    end = _end(data)
    return data[_PREFIX:end] if len(data) >= end else None


def _descriptors(pieces: list[_Piece]) -> array.array[int]:
    """Files that came."""
    fds = array.array("i")
    for _, ancillary, *_ in pieces:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return fds


def _ancillary(fds: array.array[int]) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds.tobytes())] if fds else []


class Process:
    """A penstock command that feeds this process.

    Raises UsageError if the binary is of a release that this package does not go together with.
    """

    failure: type[errors.Error] = errors.Error  # of one that does not start

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
                    env={k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_") or k.startswith(KEPT)},
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
        hello: Message = {}
        with selectors.DefaultSelector() as ready:
            ready.register(self._control, selectors.EVENT_READ)
            if not ready.select(START_TIMEOUT):
                raise errors.Error(f"`{self._command}` did not come up in {START_TIMEOUT:g} s; {self._log.words()}")
        self._control.settimeout(None)  # the program's default is not for it
        data = _received(self._control, [])
        if isinstance(data, bytes):
            with contextlib.suppress(ValueError):  # of a release that said it otherwise
                hello = json.loads(data)
        if hello.get("language") != LANGUAGE:
            release = hello.get("release") or _binary.release(self._binary)
            if not hello and release == _binary.version():  # such as for a setting that it cannot take
                raise self.failure(f"`{self._command}` did not start: {self.end()}")
            raise errors.UsageError(
                f"the binary {self._binary} (release {release}) does not go together with this release of the package "
                f"({_binary.version()}): {_binary.ways()}{'' if hello else '; ' + self.end()}"
            )

    def connect(self) -> Connection:
        """A connection for a session. Raises OSError if it does not take one."""
        with _spawning:
            ours, theirs = socket.socketpair()
            _sockets.add(ours)
            with theirs:
                socket.send_fds(self._control, [b"s"], [theirs.fileno()])
        ours.settimeout(None)  # the program's default is not for it
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
            return f"it closed the connection; {self._log.words()}"
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
