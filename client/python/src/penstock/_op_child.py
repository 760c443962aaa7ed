"""A process that runs Python functions for a worker, which starts it and has the other end of the socket, file 3.

What is said there is JSON behind its length; worker/python/protocol.go has the words. Columns lie in two segments of
memory that the worker makes: it writes the inputs, which cannot be written to here, and this process the results. The
process ends with its socket. It answers one request after the other, in its main thread.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import mmap
import os
import platform
import re
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import _op_call, _op_pictures, _versions
from penstock._named import Absent
from penstock._offered import Offered
from penstock._op_values import Declared

PROTOCOL = 2
ALIGN = 64  # of each buffer in a segment
MOST_WORDS, MOST_TRACEBACK = 8_000, 64_000  # characters of what an exception says that ends a call
WITH_WORDS = 8  # rows of a call that failed, and of which it is said how
ROW_WORDS, ROW_TRACEBACK = 1_000, 4_000  # characters of that: an answer has no more than 1 MiB

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38

Message: TypeAlias = "dict[str, Any]"
Kind: TypeAlias = "pa.DataType | _op_pictures.Kind"  # of an input
Piece: TypeAlias = Any  # bytes in memory; None is a bitmap that is not there


class Channel:
    """The socket to the worker. A child that was forked off has no part in it."""

    def __init__(self, file: int) -> None:
        os.set_inheritable(file, False)
        self._socket = socket.socket(fileno=file)
        self._owner = os.getpid()

    def receive(self) -> tuple[Message, list[int]]:
        """The next request and its files. Raises EOFError if there will be none."""
        self.check()
        head, files, _, _ = socket.recv_fds(self._socket, 4, 8)
        size = struct.unpack("<I", head + self._exactly(4 - len(head)))[0]
        message: Message = json.loads(self._exactly(size))
        return message, files

    def send(self, message: Message) -> None:
        """Answers."""
        self.check()
        body = _encoded(message)
        self._socket.sendall(struct.pack("<I", len(body)) + body)

    def close(self) -> None:
        """Lets go of it, in a child that was forked off."""
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        out = bytearray()
        while len(out) < size:
            more = self._socket.recv(size - len(out))
            if not more:
                raise EOFError
            out += more
        return bytes(out)

    def check(self) -> None:
        """Ends a process that was forked off in a function, and has returned from it, too."""
        if os.getpid() != self._owner:
            os._exit(1)


def _encoded(message: Message) -> bytes:
    """A message as JSON, with 6 bytes for a character at most; half a surrogate pair becomes an escape."""
    return json.dumps(message, ensure_ascii=False).encode(errors="backslashreplace")


class Child:
    """What the process has: the code, the functions made of it, and the segments."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._entries: list[_op_call.Entry] = []
        self._offered: Offered | None = None  # by name
        self._functions: dict[int, tuple[_op_call.Function, list[Kind]]] = {}
        self._in: mmap.mmap | None = None
        self._out: mmap.mmap | None = None
        self._busy = False  # in the user's code

    def run(self) -> None:
        """Answers requests until there are none."""
        signal.signal(signal.SIGINT, self._interrupt)
        self._say(
            {"kind": "hello", "protocol": PROTOCOL, "python": platform.python_version(), "pyarrow": pa.__version__}, 0
        )
        answers = {"load": self._load, "list": self._list, "make": self._make, "call": self._call}
        while True:
            try:
                request, files = self._channel.receive()
            except EOFError:
                return
            answer = answers[request["kind"]](request, files)
            if answer is not None:
                self._say(answer, request["number"])

    def _say(self, answer: Message, number: int) -> None:
        self._channel.send({**answer, "number": number})

    def _interrupt(self, *_: Any) -> None:
        if self._busy:
            self._busy = False
            raise KeyboardInterrupt

    def _load(self, request: Message, files: list[int]) -> Message:
        bundle = _read(files, request["code"]) if files else None
        try:
            self._busy = True
            differs = _versions.difference(request.get("python", ""), request.get("distributions", ()))
            if not differs and bundle is not None:
                self._entries = _op_call.load(bundle)
            elif not differs:
                self._offered = Offered(request.get("calls", ()), request.get("modules", ()))
                differs = self._offered.difference(request["digests"])
            self._busy = False
        except BaseException as err:
            self._busy = False
            return _told("failed", err)
        return {"kind": "differs", "message": differs[:MOST_WORDS]} if differs else {"kind": "loaded"}

    def _list(self, request: Message, _: list[int]) -> Message:
        try:
            self._busy = True
            if self._offered is None:
                self._offered = Offered(request.get("calls", ()), request.get("modules", ()))
            elif self._offered.stale():
                self._busy = False
                return {"kind": "stale"}
            found = {"identity": self._offered.identity, "functions": self._offered.marks()}
            self._busy = False
        except BaseException as err:
            self._busy = False
            return _told("absent" if isinstance(err, Absent) else "failed", err)
        return {"kind": "listed", **found}

    def _make(self, request: Message, _: list[int]) -> Message:
        outs = [
            Declared(o["kind"], o["list"], o["nested"], tuple(o["shape"] or ()), o["text"])
            for o in request.get("outs", ())
        ]
        ins = [_kind(i) for i in request.get("ins", ())]
        try:
            self._busy = True
            made = _op_call.Function(
                self._entry(request), request["style"], outs, request.get("name", ""),
                request.get("makes", "map"), request.get("most", _op_call.MOST), request.get("rng", False),
            )  # fmt: skip
            self._busy = False
        except BaseException as err:
            self._busy = False
            return _told("failed", err)
        seeds = [pa.uint64()] * request.get("rng", False)
        self._functions[request["function"]] = made, ins + seeds
        return {"kind": "made"}

    def _entry(self, request: Message) -> _op_call.Entry:
        """What is called."""
        if self._offered is None:
            return self._entries[request["index"]]
        return self._offered.entry(request["index"], request["call"], request.get("args", {}))

    def _call(self, request: Message, files: list[int]) -> Message | None:
        if request.get("in"):
            self._in = _mapped(files, request["in"], mmap.PROT_READ)
        assert self._in is not None
        view = memoryview(self._in)
        answer = self._answer(request, view)
        try:
            view.release()
        except BufferError:  # the user's code has something of the inputs: the segment is theirs
            self._in = None
            if answer is not None:
                answer["kept"] = True
        return answer

    def _answer(self, request: Message, view: memoryview) -> Message | None:
        function, types = self._functions[request["function"]]
        spared = _Spared(request.get("skip", 0), lambda: self._say({"kind": "on"}, request["number"]))
        try:
            columns = _columns(pa.py_buffer(view), types, request["rows"], request.get("places", []))
            seeds: Any = columns.pop() if function.draws else None
            seeds = None if seeds is None else seeds.to_numpy()
            function.row = None
            begin = time.perf_counter_ns()
            self._busy = True
            made = function.call(columns, request["rows"], seeds, spared.sparing)
            self._busy = False
            took = time.perf_counter_ns() - begin
            del columns, seeds
            pieces: list[Piece] = [] if made.parents is None else [made.parents.view(np.uint8).data]
            for result in made.results:
                _lay_out(result, pieces)
        except BaseException as err:
            self._busy = False
            return {**_raised(function.row, err), "failed": spared.told()}
        self._channel.check()
        places, end = _placed(pieces)
        if end > (0 if self._out is None else len(self._out)) and not self._grow(end, request["number"]):
            return None
        for at, piece in zip(places[::2], pieces, strict=True):
            if piece is not None and len(piece):
                assert self._out is not None
                self._out[at : at + len(piece)] = piece
        rows = request["rows"] - len(spared.failed) if made.parents is None else len(made.parents)
        return {"kind": "done", "rows": rows, "places": places, "ns": took, "failed": spared.told()}

    def _grow(self, size: int, number: int) -> bool:
        """Asks for a larger segment; False: there is none, and the call is over."""
        self._say({"kind": "need", "bytes": size}, number)
        room, files = self._channel.receive()
        if not room.get("out"):
            return False
        if self._out is not None:
            self._out.close()
        self._out = _mapped(files, room["out"], mmap.PROT_READ | mmap.PROT_WRITE)
        return True


def _read(files: list[int], size: int) -> bytes:
    """What a file has, which is closed."""
    with mmap.mmap(files[0], size, mmap.MAP_SHARED, mmap.PROT_READ) as code:
        os.close(files[0])
        return code[:]


def _mapped(files: list[int], size: int, access: int) -> mmap.mmap:
    """Maps a file, which is closed."""
    segment = mmap.mmap(files[0], size, mmap.MAP_SHARED, access)
    os.close(files[0])
    return segment


class _Spared:
    """The rows of a call that failed, of which there may be so many. The first ones have words."""

    def __init__(self, most: int, on: Callable[[], None]) -> None:
        self.failed: list[Message] = []
        self._most = most
        self.sparing = _op_call.Sparing(self._may, on) if most > 0 else None

    def _may(self, row: int, err: BaseException) -> bool:
        if len(self.failed) >= self._most or not _op_call.of_a_row(err):
            return False
        said: Message = {"row": row}
        if len(self.failed) < WITH_WORDS:
            said = {**_raised(row, err), "kind": ""}
            said["message"], said["traceback"] = said["message"][:ROW_WORDS], said["traceback"][-ROW_TRACEBACK:]
        self.failed.append(said)
        return True

    def told(self) -> list[Message]:
        """They, in order: what does not convert shows behind all that raised."""
        return sorted(self.failed, key=lambda failed: failed["row"])


def _raised(row: int | None, err: BaseException) -> Message:
    told = {**_told("raised", err), "row": row, "own": _op_call.of_a_row(err)}
    if isinstance(err, _op_call.Mistake):  # the worker says which row of the file that is
        told["message"] = re.sub(r" in row \d+ of the call", "", told["message"], count=1)
    return told


def _told(kind: str, err: BaseException) -> Message:
    """An exception in words."""
    if isinstance(err, _op_call.Mistake):
        return {"kind": kind, "type": "", "message": str(err)[:MOST_WORDS], "traceback": ""}
    name, module = type(err).__qualname__, type(err).__module__
    try:
        words, frames = str(err), _op_call.user_traceback(err)
    except Exception as other:  # an exception can be of any class
        words, frames = f"(its words fail with {type(other).__qualname__})", ""
    return {
        "kind": kind,
        "type": name if module in ("builtins", "__main__") else f"{module}.{name}",
        "message": words[:MOST_WORDS],
        "traceback": frames[-MOST_TRACEBACK:],
    }


def _kind(form: Message) -> Kind:
    """The kind of an input, as the worker says it."""
    if form["kind"] == "picture":
        return _op_pictures.Kind(*form["shape"])
    return Declared(form["kind"], form["list"], form["nested"], (), form["text"]).arrow()


def _columns(segment: pa.Buffer, types: list[Kind], rows: int, places: list[int]) -> list[_op_call.Column]:
    """The inputs, where they lie."""
    at = iter(places)
    return [
        _pictures(segment, at, kind, rows) if isinstance(kind, _op_pictures.Kind) else _column(segment, at, kind, rows)
        for kind in types
    ]


def _pictures(segment: pa.Buffer, at: Iterator[int], kind: _op_pictures.Kind, count: int) -> _op_pictures.Pictures:
    valid = _buffer(segment, at)
    bits = None if valid is None else np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[:count]
    ends, pixels, sizes = (np.frombuffer(_buffer(segment, at) or b"", of) for of in (np.int32, np.uint8, np.int32))
    return _op_pictures.lying(kind, pixels, ends, sizes, bits)


def _column(segment: pa.Buffer, at: Iterator[int], kind: pa.DataType, count: int) -> pa.Array:
    valid = _buffer(segment, at)
    if pa.types.is_list(kind):
        offsets = _buffer(segment, at)
        assert offsets is not None
        values = _column(segment, at, kind.value_type, struct.unpack_from("<i", offsets, 4 * count)[0])
        return pa.Array.from_buffers(kind, count, [valid, offsets], children=[values])
    buffers = [valid, _buffer(segment, at)]
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        buffers.append(_buffer(segment, at))
    return pa.Array.from_buffers(kind, count, buffers)


def _buffer(segment: pa.Buffer, at: Iterator[int]) -> pa.Buffer | None:
    start, size = next(at), next(at)
    return None if start < 0 else segment.slice(start, size)


def _lay_out(array: pa.Array, pieces: list[Piece]) -> None:
    """Adds an array's buffers, depth first, as the worker expects them: from the first value to the last."""
    count, start, buffers = len(array), array.offset, array.buffers()
    pieces.append(_bits(buffers[0], start, count) if array.null_count else None)
    kind = array.type
    if pa.types.is_list(kind):
        if array.null_count:  # under which there may be something
            lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
            offsets, values = np.zeros(count + 1, np.int32), array.flatten()
            np.cumsum(lengths, out=offsets[1:])
        else:
            offsets = _offsets(buffers[1], start, count)
            values = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        pieces.append(_risen(offsets))
        _lay_out(values, pieces)
    elif pa.types.is_binary(kind) or pa.types.is_string(kind):
        ends = _offsets(buffers[1], start, count)
        pieces.append(_risen(ends))
        pieces.append(_part(buffers[2], int(ends[0]), int(ends[-1])))
    elif pa.types.is_boolean(kind):
        pieces.append(_bits(buffers[1], start, count))
    else:
        width = kind.bit_width // 8
        pieces.append(_part(buffers[1], width * start, width * (start + count)))


def _part(buffer: pa.Buffer | None, start: int, end: int) -> Piece:
    return b"" if buffer is None or start == end else memoryview(buffer)[start:end]


def _bits(buffer: pa.Buffer | None, start: int, count: int) -> Piece:
    if buffer is None or not count:
        return b""
    whole = _part(buffer, start // 8, (start + count + 7) // 8)
    if start % 8 == 0:
        return whole
    bits = np.unpackbits(np.frombuffer(whole, np.uint8), bitorder="little")[start % 8 : start % 8 + count]
    return np.packbits(bits, bitorder="little").data


def _offsets(buffer: pa.Buffer | None, start: int, count: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    if buffer is None or not buffer.size:
        return np.zeros(count + 1, np.int32)
    return np.frombuffer(buffer, np.int32)[start : start + count + 1]


def _risen(offsets: np.ndarray[Any, np.dtype[np.int32]]) -> Piece:
    """Offsets from 0 on."""
    return (offsets - offsets[0] if offsets[0] else offsets).view(np.uint8).data


def _placed(pieces: list[Piece]) -> tuple[list[int], int]:
    """Where buffers go in a segment, and how much of it they take."""
    places, at = [], 0
    for piece in pieces:
        if piece is None:
            places += [-1, 0]
            continue
        at = -(-at // ALIGN) * ALIGN
        places += [at, len(piece)]
        at += len(piece)
    return places, at


def _confine() -> None:
    """Gives up what a function has no use for, before one is loaded."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_NO_NEW_PRIVS)")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with open("/proc/self/oom_score_adj", "w") as score:  # noqa: PTH123
            score.write("1000")  # rather this process than the worker
    except OSError:
        pass


def main() -> None:
    """Runs the process."""
    _confine()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    faulthandler.enable()
    pa.set_cpu_count(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
    channel = Channel(3)
    libc = ctypes.CDLL(None)

    def forked() -> None:
        channel.close()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # else it would outlive a worker that is killed
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    os.register_at_fork(after_in_child=forked)
    Child(channel).run()


if __name__ == "__main__":
    main()
