"""Links, and the messages on them: whatever is at the other end, nothing that it says is trusted."""

from __future__ import annotations

import pickle
import random
import socket
import struct
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from penstock._flat import LONG, Array, Flat, Form
from penstock._session import links
from penstock._session.blocks import ALIGNMENT, Block, Blocks, capacity
from penstock._session.config import Security
from penstock._session.layout import LayoutError
from penstock._session.links import Link, LinkError, Links
from penstock._session.messages import LIKELY_BODY, MOST_BODY, MessageError, _Header, read
from penstock._session.rebatch import Slice, join

if TYPE_CHECKING:
    pass

from tests.link_cases import (
    END,
    META,
    PREFIX,
    WHOLE,
    Port,
    accept,
    arrow,
    brings,
    envelope,
    halves,
    hang,
    least,
    line,
    narrowed,
    record,
)
from tests.test_batch import record as every_layout


@pytest.mark.pure
def test_messages_come_whole_and_aligned() -> None:
    sent = [record(rows, rows) for rows in (1, 0, 100, 40_000)]
    with brings(*(line(r, META + bytes([i]), follows=i) for i, r in enumerate(sent)), END) as link:
        blocks = Blocks(2)
        for i, want in enumerate(sent):
            message = link.receive(blocks)
            assert message is not None
            rows = read(message.memory, Form(want.schema))
            assert isinstance(rows, Flat)
            got = rows.to_arrow()
            assert got.equals(want)
            assert message.meta == META + bytes([i])
            memory = range(message.memory.address, message.memory.address + message.memory.size)
            values = [got.column(0).buffers()[-1], got.column(1).buffers()[-1]]
            for b in (b for b in values if b is not None and b.size):
                assert b.address in memory  # not a copy
                assert b.address % 8 == 0
            assert (message.memory.address + message.memory.size - len(halves(want)[1])) % ALIGNMENT == 0
            assert message.bytes >= message.memory.size
        assert link.receive(blocks) is None


@pytest.mark.pure
def test_memory_is_used_again_when_nothing_sees_it() -> None:
    one, two = record(30_000, 1), record(30_000, 2)
    with brings(line(one), line(two), line(one), END) as link:
        blocks = Blocks(2)
        messages = [link.receive(blocks), link.receive(blocks)]
        assert messages[0] is not None
        assert messages[1] is not None
        first, second = messages[0].memory.address, messages[1].memory.address
        assert first != second
        got = arrow(read(messages[0].memory, Form(one.schema))).column(1).slice(3)
        del messages[0]
        third = link.receive(blocks)
        assert third is not None
        assert third.memory.address != first  # a column of it is still seen
        assert got.equals(one.column(1).slice(3))
        del got
        assert _same(blocks.take(third.memory.size - 64), first)


@pytest.mark.pure
@pytest.mark.parametrize("seed", range(5))
def test_messages_of_all_lengths_come_together(seed: int) -> None:
    """What is read of one beyond its head is of its body, or of those behind it."""
    rng = random.Random(seed)
    sent = [(record(rng.choice([0, 1, 3, 900]), i), bytes([i]) * rng.choice([1, 30, 6000, 60_000])) for i in range(30)]
    lines = b"".join(line(of, meta) for of, meta in sent) + END
    cuts = sorted(rng.randrange(len(lines)) for _ in range(40))
    parts = [lines[a:b] for a, b in zip([0, *cuts], [*cuts, len(lines)], strict=True)]
    with brings(*parts, END, then_hangs=True) as link:
        blocks = Blocks(2)
        for want, meta in sent:
            message = link.receive(blocks)
            assert message is not None
            assert message.meta == meta
            assert arrow(read(message.memory, Form(want.schema))).equals(want)
        assert link.receive(blocks) is None
        assert link.receive(blocks) is None  # of a stream without batches
        link._ahead = b"more"
        assert not link.clean()


def _same(block: Block, address: int) -> bool:
    return abs(int(block.ctypes.data) - address) < 1 << 16


@pytest.mark.pure
@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 5000, 1 << 20, (1 << 20) + 1, 5_000_000, MOST_BODY])
def test_capacity_is_little_more(size: int) -> None:
    assert max(size, 4096) <= capacity(size) <= max(4096, size + size // 4 + 1)


HEADER = len(halves(record())[0])


@pytest.mark.pure
@pytest.mark.parametrize(
    "came",
    [
        0,
        1,
        PREFIX.size - 1,
        PREFIX.size,
        PREFIX.size + 8,
        PREFIX.size + HEADER,
        PREFIX.size + HEADER + 5,
        len(WHOLE) - 1,
    ],
)
def test_truncated_messages_are_no_end(came: int) -> None:
    with brings(WHOLE[:came]) as link, pytest.raises(LinkError, match="ended before its batches did"):
        link.receive(Blocks(2))


@pytest.mark.pure
@pytest.mark.parametrize(
    "lengths",
    [
        ((16 << 20) + 1, 0, 0, 0),
        (2**32 - 1, 0, 0, 0),
        (8, (64 << 10) + 1, 8, 0),
        (8, 8, MOST_BODY + 1, 0),
        (0, 0, 2**32 - 1, 0),
        (0, 0, 0, MOST_BODY + 1),
    ],
)
def test_lengths_beyond_all_bounds_are_refused(lengths: tuple[int, int, int, int]) -> None:
    header, meta, body, follows = lengths
    with (
        brings(PREFIX.pack(*lengths), then_hangs=True) as link,
        pytest.raises(LinkError, match=f"of {header}, {meta} and {body} bytes, {follows} behind"),
    ):
        link.receive(Blocks(2))


class Counting(Blocks):
    """Notes what is taken."""

    def __init__(self) -> None:
        super().__init__(2)
        self.taken: list[int] = []

    def take(self, size: int) -> Block:
        self.taken.append(size)
        return super().take(size)


@pytest.mark.pure
@pytest.mark.parametrize("came", [0, 1, LIKELY_BODY + 1])
def test_memory_grows_with_what_comes(came: int) -> None:
    """A length that is not true costs no more than four times what came."""
    blocks = Counting()
    with brings(PREFIX.pack(8, 0, MOST_BODY, 0), bytes(8 + came)) as link, pytest.raises(LinkError):
        link.receive(blocks)
    assert max(blocks.taken) <= max(LIKELY_BODY + 64, 4 * (came + 64))
    with brings(PREFIX.pack(16 << 20, 0, 0, 0), bytes(100)) as link:
        with pytest.raises(LinkError):
            link.receive(blocks)
        assert len(link._head) <= 64 << 10


@pytest.mark.pure
def test_large_bodies_come_whole() -> None:
    want = record(1_200_000)
    assert len(halves(want)[1]) > 2 * LIKELY_BODY
    with brings(line(want), END) as link:
        blocks = Blocks(2)
        message = link.receive(blocks)
        assert message is not None
        assert arrow(read(message.memory, Form(want.schema))).equals(want)
        assert link.receive(blocks) is None


def mutated(of: bytes, rng: random.Random) -> bytes:
    bad = bytearray(of)
    for _ in range(rng.randint(1, 3)):
        bad[rng.randrange(len(bad))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(bad)


def content(rows: Flat) -> list[bytes]:
    """All values, bit for bit, and where rows begin."""
    joined = join([Slice(rows, 0, rows.num_rows)], Blocks(0))
    return [*(p.tobytes() for p in joined.parts), *(joined.offsets[at].tobytes() for at in joined.where)]


@pytest.mark.pure
@pytest.mark.parametrize("want", [record(), every_layout(40), every_layout(2)])
@pytest.mark.parametrize("narrow", [False, True])
def test_messages_are_garbage(want: pa.RecordBatch, narrow: bool) -> None:
    """Whatever they say, it is an error, or a record that can be read; where Arrow reads one, the same."""
    rng, form = random.Random(1), Form(want.schema)
    header, body = narrowed(want, least) if narrow else halves(want)
    good = same = 0
    for i in range(1500):
        bad = envelope(header, mutated(body, rng)) if i % 3 == 0 else envelope(mutated(header, rng), body)
        try:
            got = read(bad, form)
        except (MessageError, LayoutError):
            continue
        good += 1
        if not isinstance(got, Flat):
            continue
        got.to_arrow().validate(full=True)
        assert content(got) == content(Flat.of(got.to_arrow(), form))
        try:
            theirs = pa.ipc.read_record_batch(pa.ipc.read_message(bad), want.schema)
            theirs.validate(full=True)
        except (pa.ArrowException, OSError):  # it looks at more, such as the length that a header says of its body
            continue
        same += 1
        assert content(got) == content(Flat.of(theirs, form))
    assert same <= good < 1500
    assert good > 0
    assert same > 0 or narrow
    for short in range(0, len(header), 8):
        with pytest.raises(MessageError):
            read(envelope(header[:short], body), form)


def several(rows: int, seed: int) -> pa.RecordBatch:
    """A record of every layout whose int64 values need 1 to 8 bytes."""
    rng = np.random.default_rng(seed)
    flat = Flat.of(every_layout(rows))
    most = [int(m) for m in rng.choice([1 << 8, 1 << 16, 1 << 32, 1 << 62], len(flat.parts))]
    parts = [
        rng.integers(-(m >> 40), m, len(v)) if v.dtype == LONG else v for v, m in zip(flat.parts, most, strict=True)
    ]
    return Flat(flat.form, rows, parts, flat.offsets, flat.where).to_arrow()


@pytest.mark.pure
@pytest.mark.parametrize("seed", range(30))
def test_narrow_values_are_widened(seed: int) -> None:
    """Of records whose widths differ, whole and in parts, joined and as Arrow has them."""
    rng = random.Random(seed)
    form = Form(every_layout(1).schema)
    records = [several(rng.choice([0, 1, 2, 7, 60, 200]), 100 * seed + i) for i in range(rng.randint(1, 6))]

    def size(column: str, values: Array) -> int:
        return rng.choice([n for n in (1, 2, 4, 8) if n >= least(column, values)])

    got = [read(envelope(*narrowed(r, rng.choice([least, size]))), form) for r in records]
    slices, cut = list[Slice](), list[pa.RecordBatch]()
    for rows, want in zip(got, records, strict=True):
        assert isinstance(rows, Flat)
        low = rng.randint(0, want.num_rows)
        high = rng.randint(low, want.num_rows)
        slices.append(Slice(rows, low, high))
        cut.append(want.slice(low, high - low))
    joined = join(slices, Blocks(0)).to_arrow()
    joined.validate(full=True)
    assert pa.Table.from_batches([joined]).equals(pa.Table.from_batches(cut).combine_chunks())
    for rows, want in zip(got, records, strict=True):
        assert arrow(rows).equals(want)
        assert pickle.loads(pickle.dumps(rows)).to_arrow().equals(want)


@pytest.mark.pure
@pytest.mark.parametrize("rows", [40, 100_000])
def test_narrow_values_of_all_widths(rows: int) -> None:
    """Those of each width are unsigned, however large a piece of them is."""
    schema = pa.schema([pa.field("ids", pa.list_(pa.int64()), metadata={"penstock.layout": "sparse"})])
    values = [np.arange(rows) % (1 << 8), np.arange(rows) % (1 << 16), (1 << 32) - 1 - np.arange(rows)]
    ends = pa.array(np.arange(rows + 1, dtype=np.int32))
    records = [pa.record_batch([pa.ListArray.from_arrays(ends, pa.array(v))], schema) for v in values]
    widths = [least("ids", v) for v in values]
    assert widths == ([1, 1, 4] if rows == 40 else [1, 2, 4])
    form = Form(schema)
    got = [read(envelope(*narrowed(r, least)), form) for r in records]
    slices = [Slice(rows, 0, rows.num_rows) for rows in got if isinstance(rows, Flat)]
    for each in [*([s] for s in slices), slices]:
        joined = join(each, Blocks(0))
        assert joined.parts[0].dtype == np.int64
    np.testing.assert_array_equal(joined.parts[0], np.concatenate(values))


@pytest.mark.pure
@pytest.mark.parametrize("column", ["ids", "weighted", "_row", "scores", "dense", "price", "word"])
def test_values_in_buffers_of_other_lengths_are_damage(column: str) -> None:
    """Only int64 values may be narrow, and of no other widths."""
    want = every_layout(40)
    form = Form(want.schema)
    part = form.parts[form.index[column, "values"]]
    header, body = halves(want)
    (at,) = [i for i, p in enumerate(form.parts) if p is part]
    n = len(Flat.of(want, form).parts[at])
    narrow = {n, 2 * n, 4 * n} if part.dtype == LONG else set[int]()
    enough = n * part.dtype.itemsize
    sizes = {0, 1, n - 1, n, n + 1, 2 * n - 1, 2 * n, 3 * n, 4 * n, 4 * n + 1, 5 * n, enough - 1, enough}
    for size in (s for s in sizes if s <= enough):
        bad = bytearray(header)
        _Header(memoryview(bad)).buffers[part.buffer, 1] = size
        if size in narrow or size == enough:
            assert isinstance(read(envelope(bytes(bad), body), form), Flat)
            continue
        with pytest.raises(MessageError, match=f"column '{column}': a buffer of {size} bytes has no {n} values"):
            read(envelope(bytes(bad), body), form)


@pytest.mark.pure
def test_a_message_of_another_kind_is_refused() -> None:
    schema = record().schema
    with pytest.raises(MessageError, match="no record batch"):
        read(schema.serialize(), Form(schema))


@pytest.mark.pure
def test_nulls_are_seen() -> None:
    schema = pa.schema([pa.field("x", pa.list_(pa.int64()), metadata={"penstock.layout": "sparse"})])
    for values in ([[1], None], [[1, None]]):
        message = pa.record_batch([pa.array(values, pa.list_(pa.int64()))], schema).serialize()
        with pytest.raises(LayoutError, match="column 'x': 1 nulls"):
            read(message, Form(schema))


@pytest.mark.pure
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_messages(codec: str) -> None:
    want = record(50_000)
    header, body = halves(want, codec)
    got = read(envelope(header, body), Form(want.schema))
    assert isinstance(got, pa.RecordBatch)
    assert got.equals(want)
    for n in (-2, 1 << 40, MOST_BODY):
        bad = struct.pack("<q", n) + body[8:]  # of the first buffer that has some
        with pytest.raises(MessageError, match="claims to have"):
            read(envelope(header, bad), Form(want.schema))


@pytest.mark.pure
@pytest.mark.parametrize("answer", [b"", b"X", b"HTTP/1.1 400 Bad Request\r\n"])
def test_what_has_no_links_is_not_asked_for_each_stream(answer: bytes) -> None:
    with closing(Port(lambda conn, name: conn.sendall(answer))) as port:
        them = Links(port.address, Security())
        assert [them.take(lambda link: None) for _ in range(3)] == [None] * 3
        assert port.opened == 1


@pytest.mark.pure
def test_what_never_answers_is_left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "DIAL_TIMEOUT", 0.05)
    with closing(Port(lambda conn, name: hang(conn))) as port:
        assert Links(port.address, Security()).take(lambda link: None) is None


@pytest.mark.pure
def test_links_are_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "WITHOUT_FOR", 0.0)
    answers = iter([b"X", b"K"])

    def says(conn: socket.socket, name: bytes) -> None:
        conn.sendall(next(answers))
        hang(conn)

    with closing(Port(says)) as port:
        them = Links(port.address, Security())
        assert them.take(lambda link: None) is None
        link = them.take(lambda link: None)
        assert link is not None
        link.close()


@pytest.mark.pure
def test_idle_links_are_used_again_unless_they_are_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Port(accept)) as port:
        them = Links(port.address, Security())
        first = them.take(lambda link: None)
        assert first is not None
        them.put(first)
        assert them.take(lambda link: None) is first
        them.put(first)
        monkeypatch.setattr(links, "KEPT_IDLE", -1.0)
        second = them.take(lambda link: None)
        assert second is not None
        assert second is not first
        assert first._socket is None
        them.put(second)
        them.close()
        assert second._socket is None
        assert them.take(lambda link: None) is None


@pytest.mark.pure
@pytest.mark.parametrize("word", [b"", b"more"])
def test_idle_links_that_were_closed_or_brought_more_are_not_used(word: bytes) -> None:
    said = threading.Event()

    def says(conn: socket.socket, name: bytes) -> None:
        conn.sendall(b"K" + word)
        if not word:
            conn.shutdown(socket.SHUT_WR)
        said.set()
        hang(conn)

    with closing(Port(says)) as port:
        them = Links(port.address, Security())
        link = them.take(lambda link: None)
        assert link is not None
        assert said.wait(30)
        link._socket.recv(1, socket.MSG_PEEK)  # type: ignore[union-attr]  # until it is here
        them.put(link)
        other = them.take(lambda link: None)
        assert other is not link
        assert other is not None
        other.close()


@pytest.mark.pure
@pytest.mark.parametrize("opened", [False, True])
def test_cancel_ends_what_a_link_waits_for(opened: bool) -> None:
    def says(conn: socket.socket, name: bytes) -> None:
        if opened:
            accept(conn, name)
        else:
            hang(conn)

    with closing(Port(says)) as port:
        link, failed = Link(), threading.Event()
        if opened:
            link.open(port.address, Security())

        def work() -> None:
            try:
                if opened:
                    link.receive(Blocks(1))
                else:
                    link.open(port.address, Security())
            except (OSError, LinkError):
                failed.set()

        t = threading.Thread(target=work)
        t.start()
        link.cancel()
        t.join(30)
        assert failed.is_set()
        link.close()
