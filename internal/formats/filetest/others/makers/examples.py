"""TFRecord of tf.train.Example."""

from __future__ import annotations

import gzip
import io
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import tensorflow as tf

from makers.case import HERE, Cases, by, columns
from makers.features import TYPES, Row, rows


def feature(name: str, value: Any) -> Any:
    """A feature by its column's type. None: a feature that is there, without a kind."""
    if value is None:
        return tf.train.Feature()
    kind = TYPES[name]
    listed = value if pa.types.is_list(kind) else [value]
    of = kind.value_type if pa.types.is_list(kind) else kind
    if pa.types.is_binary(of):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=listed))
    if pa.types.is_integer(of):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=listed))
    return tf.train.Feature(float_list=tf.train.FloatList(value=listed))


def serialized(row: Row) -> bytes:
    """A row as an Example."""
    features = {name: feature(name, value) for name, value in row.items()}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    data: bytes = example.SerializeToString(deterministic=True)
    return data


def write(path: Path, records: Sequence[bytes], compression: str = "") -> None:
    """Writes records by TensorFlow, and reads them again."""
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=compression)) as out:
        for record in records:
            out.write(record)
    check(path, records, compression)


def check(path: Path, records: Sequence[bytes], compression: str = "") -> None:
    """TensorFlow must read the records."""
    if [r.numpy() for r in tf.data.TFRecordDataset(str(path), compression)] != list(records):
        raise SystemExit(f"{path}: TensorFlow reads other records")


def varint(n: int) -> bytes:
    """A number as protobuf has it."""
    out = bytearray()
    n &= (1 << 64) - 1
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def field(number: int, data: bytes) -> bytes:
    """A field of protobuf that has a length."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def unpacked(row: Row, swapped: bool) -> bytes:
    """An Example whose numbers stand one by one, with a field that no schema has; values before keys if swapped."""
    entries = b""
    for name, value in row.items():
        listed, kind = (value if isinstance(value, list) else [value]), TYPES[name]
        of = kind.value_type if pa.types.is_list(kind) else kind
        if pa.types.is_binary(of):
            feature = field(1, b"".join(field(1, v) for v in listed))
        elif pa.types.is_integer(of):
            feature = field(3, b"".join(b"\x08" + varint(v) for v in listed))
        else:
            feature = field(2, b"".join(b"\x0d" + struct.pack("<f", v) for v in listed))
        parts = [field(1, name.encode()), field(2, feature)]
        entries += field(1, b"".join(reversed(parts) if swapped else parts))
    return field(1, entries) + field(1000, b"unknown")


def make() -> Cases:
    """Writes the files."""
    cases = Cases("tfrecord")
    few, writer = rows(16), by("tensorflow-cpu") + "'s TFRecordWriter"
    many = [{k: v for k, v in row.items() if k != "image"} for row in rows(300)]
    for name, compression, given in (("plain.tfrecord", "", few), ("stream.tfrecord.gz", "GZIP", many)):
        write(cases.path(name), [serialized(row) for row in given], compression)
        cases.add(name, columns(given, TYPES), writer)
    write(cases.path("plain.tfrecord"), [serialized(row) for row in few])

    missing = [{k: v for j, (k, v) in enumerate(row.items()) if k == "id" or (i + j) % 3} for i, row in enumerate(few)]
    write(cases.path("missing.tfrecord"), [serialized(row) for row in missing])
    cases.add("missing.tfrecord", columns(missing, TYPES), writer, "rows that lack features, which are null")
    unset = [{**row, "label": None if i % 2 else row["label"]} for i, row in enumerate(many[:20])]
    write(cases.path("unset.tfrecord"), [serialized(row) for row in unset])
    cases.add("unset.tfrecord", columns(unset, TYPES), writer, "features without a kind, which are null")

    by_hand = [unpacked(row, i % 2 == 1) for i, row in enumerate(many[:20])]
    for data, row in zip(by_hand, many[:20], strict=True):
        if tf.train.Example.FromString(data).features != tf.train.Example.FromString(serialized(row)).features:
            raise SystemExit(f"the Example by hand has another row than {row}")
    write(cases.path("unpacked.tfrecord"), by_hand)
    cases.add("unpacked.tfrecord", columns(many[:20], TYPES), f"{writer}, Examples by hand",
              "numbers that are not packed, unknown fields, values before their keys")  # fmt: skip

    inner = cases.path("plain.tfrecord").read_bytes()[:5000]
    nested = [{"id": i, "inner": inner[i:]} for i in range(3)]
    write(cases.path("nested.tfrecord"), [serialized(row) for row in nested])
    cases.add("nested.tfrecord", columns(nested, TYPES), writer, "a feature that is a TFRecord file")

    pieces = cases.path("stream.tfrecord.gz")
    whole = gzip.decompress(pieces.read_bytes())
    cases.path("members.tfrecord.gz").write_bytes(
        b"".join(gzip.compress(whole[at : at + 20_000], mtime=0) for at in range(0, len(whole), 20_000))
    )
    cases.add("members.tfrecord.gz", columns(many, TYPES), f"{writer}, Python's gzip", "members that cut records")
    by_tfrecord(cases, many[:20])
    return cases


def by_tfrecord(cases: Cases, given: Sequence[Row]) -> None:
    """By the package tfrecord, without TensorFlow, with its indexes."""
    path, plain = cases.path("torch.tfrecord"), cases.path("plain.tfrecord")
    if not path.exists():  # its features have another order each time
        # In a process of its own: both packages define tf.train.Example.
        subprocess.run([sys.executable, "-m", "makers.torch_examples", str(path), str(len(given)), str(plain)],
                       check=True, cwd=HERE)  # fmt: skip
    check(path, read(path))
    for record, row in zip(read(path), given, strict=True):
        if tf.train.Example.FromString(record) != tf.train.Example.FromString(serialized(row)):
            raise SystemExit(f"{path} has another row than {row}")
    cases.add("torch.tfrecord", columns(given, TYPES), by("tfrecord"),
              "tfrecord2idx's indexes are torch.tfrecord.idx and plain.tfrecord.idx")  # fmt: skip


def read(path: Path) -> list[bytes]:
    """The records, by their lengths alone."""
    data, found = io.BytesIO(path.read_bytes()), []
    while head := data.read(12):
        found.append(data.read(struct.unpack("<Q", head[:8])[0]))
        data.read(4)
    return found
