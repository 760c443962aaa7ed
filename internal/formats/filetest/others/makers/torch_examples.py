"""python -m makers.torch_examples PATH ROWS OTHER: a TFRecord by the package tfrecord; indexes of it and of another."""

from __future__ import annotations

import sys

from tfrecord.tools.tfrecord2idx import create_index

import tfrecord
from makers.features import rows

KINDS = {"name": "byte", "tags": "byte", "score": "float", "vector": "float"}


def main() -> None:
    """Writes the files."""
    path, n, other = sys.argv[1:]
    out = tfrecord.TFRecordWriter(path)
    for row in rows(int(n)):
        out.write({k: (v, KINDS.get(k, "int")) for k, v in row.items() if k != "image"})
    out.close()
    for file in (path, other):
        create_index(file, f"{file}.idx")


if __name__ == "__main__":
    main()
