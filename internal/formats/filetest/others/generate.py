"""Writes the files of other writers, their twins and cases.json: README.md says what they are.

    python -m venv /tmp/others && . /tmp/others/bin/activate
    pip install --no-deps -r requirements.txt
    python generate.py [webdataset|jsonl|csv|tokens|tfrecord|mds ...]

It needs GNU tar, gzip, zstd, pzstd and bgzip (Debian's zstd and tabix), too. PyPI's torch wants CUDA's libraries;
client/python/tests/torch/without_cuda.py makes stand-ins for those.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from makers.case import HERE, Case, listed

MAKERS = {
    "webdataset": "tars",
    "jsonl": "lines",
    "csv": "separated",
    "tokens": "tokens",
    "tfrecord": "examples",
    "mds": "shards",
}


def main() -> None:
    """Writes the formats that are named, or all."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    chosen = sys.argv[1:] or list(MAKERS)
    path = HERE / "cases.json"
    before = [Case(**one) for one in json.loads(path.read_text())] if path.exists() else []
    cases = {name: [c for c in before if c.file.startswith(f"{name}/")] for name in MAKERS}
    for name in chosen:
        cases[name] = importlib.import_module(f"makers.{MAKERS[name]}").make().found
    path.write_text(listed([case for name in MAKERS for case in cases[name]]))


if __name__ == "__main__":
    main()
