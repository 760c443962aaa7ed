"""What the tests of links share: messages, and ports that answer to links."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock._flat import LONG, Array, Flat, Form
from penstock._session.config import Security
from penstock._session.links import Link
from penstock._session.messages import _Header

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


PREFIX = struct.Struct("<IIII")
END = bytes(PREFIX.size)
META = b"which rows"


def record(rows: int = 100, seed: int = 0) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 4, rows))]).astype(np.int32)
    dense = pa.list_(pa.field("item", pa.float32(), nullable=False), 3)
    schema = pa.schema([
        pa.field("dense", dense, False, {"penstock.layout": "dense", "penstock.names": '["a","b","c"]'}),
        pa.field("ids", pa.list_(pa.int64()), False, {"penstock.layout": "sparse"}),
    ])  # fmt: skip
    columns = [
        pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 3, np.float32)), type=dense),
        pa.ListArray.from_arrays(pa.array(ends), pa.array(rng.integers(0, 9, ends[-1])), type=schema.field(1).type),
    ]
    return pa.record_batch(columns, schema=schema)


def halves(of: pa.RecordBatch, codec: str | None = None) -> tuple[bytes, bytes]:
    """A record's header and body, as Arrow writes them."""
    message = pa.ipc.read_message(of.serialize()) if codec is None else _packed(of, codec)
    return message.metadata.to_pybytes(), message.body.to_pybytes()


def _packed(of: pa.RecordBatch, codec: str) -> pa.Message:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, of.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_batch(of)
    messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
    messages.read_next_message()  # the schema's
    return messages.read_next_message()


def narrowed(of: pa.RecordBatch, size: Callable[[str, Array], int]) -> tuple[bytes, bytes]:
    """As halves, where int64 values have as many bytes as `size` says of a column and its values."""
    header, body = (bytearray(half) for half in halves(of))
    buffers = _Header(memoryview(header)).buffers
    form = Form(of.schema)
    for p, values in zip(form.parts, Flat.of(of, form).parts, strict=True):
        if p.dtype == LONG and len(values):
            n = size(of.schema.field(p.column).name, values)
            short = values.astype(f"<i{n}").tobytes()
            at = int(buffers[p.buffer, 0])
            body[at : at + len(short)] = short
            buffers[p.buffer, 1] = len(short)
    return bytes(header), bytes(body)


def least(column: str, values: Array) -> int:
    """The fewest bytes that hold all values."""
    if values.min() < 0:
        return 8
    return next(n for n in (1, 2, 4, 8) if n == 8 or values.max() < 1 << (8 * n))


def line(of: pa.RecordBatch, meta: bytes = META, codec: str | None = None, follows: int = 0) -> bytes:
    """A record's message on a link, with so many bytes behind it that were written at once."""
    header, body = halves(of, codec)
    return PREFIX.pack(len(header), len(meta), len(body), follows) + header + meta + body


def arrow(rows: Flat | pa.RecordBatch | None) -> pa.RecordBatch:
    """What came, as a record."""
    assert rows is not None
    return rows.to_arrow() if isinstance(rows, Flat) else rows


def envelope(header: bytes, body: bytes) -> pa.Buffer:
    """A message as Arrow's IPC has it in memory."""
    padded = -(-len(header) // 8) * 8
    return pa.py_buffer(struct.pack("<Ii", 0xFFFFFFFF, padded) + header.ljust(padded, b"\0") + body)


class Port:
    """What answers to links: `says` talks to each connection, which ends behind it."""

    def __init__(self, says: Callable[[socket.socket, bytes], None]) -> None:
        self._says = says
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.opened = 0
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def _accept(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self.opened += 1
            t = threading.Thread(target=self._talk, args=(conn,), daemon=True)
            self._threads.append(t)
            t.start()

    def _talk(self, conn: socket.socket) -> None:
        with conn:
            first = conn.recv(20, socket.MSG_WAITALL)
            if len(first) == 20 and first[:4] == b"PLNK":
                try:
                    self._says(conn, first[4:])
                except OSError:
                    return  # the client was faster

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for t in [self._acceptor, *self._threads]:
            t.join(30)


def hang(conn: socket.socket) -> None:
    """Waits until the client closes."""
    while conn.recv(1 << 16):
        pass


@contextmanager
def brings(*parts: bytes, then_hangs: bool = False) -> Iterator[Link]:
    """A link on which these bytes come, and then its end."""

    def says(conn: socket.socket, name: bytes) -> None:
        conn.sendall(b"K")
        for part in parts:
            conn.sendall(part)
        if then_hangs:
            hang(conn)

    with closing(Port(says)) as port:
        link = Link()
        link.open(port.address, Security())
        with closing(link):
            yield link


def accept(conn: socket.socket, name: bytes) -> None:
    conn.sendall(b"K")
    hang(conn)


WHOLE = line(record())
