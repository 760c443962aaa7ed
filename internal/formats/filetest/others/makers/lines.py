"""JSON lines."""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import zstandard

from makers.case import Cases, by, columns, python, text, tool, without_time

Row = dict[str, Any]


def rows(n: int) -> list[Row]:
    """Rows as a user has them: scalars, lists, structs and nulls in all of those."""
    return [
        {
            "id": i, "text": text(i), "score": i / 8 - 2, "safe": i % 3 == 0,
            "label": None if i % 4 == 1 else i % 2, "note": None if i % 3 else text(i + 2),
            "ids": [i * k for k in range(i % 4)], "vector": [i / 4, -0.5, 1e-3 * i],
            "tags": [text(k) for k in range(i % 3)],
            "user": {"name": text(2 * i), "age": 20 + i, "place": {"lat": i / 16, "lon": -i / 2}},
        }
        for i in range(n)
    ]  # fmt: skip


def twin(path: Path, types: dict[str, pa.DataType] | None = None) -> pa.Table:
    """What Python's json reads: a column for each name at the top."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if path.suffix == ".zst":
        data = subprocess.run(["zstd", "-dc", str(path)], check=True, stdout=subprocess.PIPE).stdout
    lines = data.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    return columns([json.loads(line) for line in lines if line.strip()], types)


def dumped(given: Sequence[Any], end: str = "\n", **how: Any) -> bytes:
    """Lines by Python's json."""
    return "".join(json.dumps(row, **how) + end for row in given).encode()


def make() -> Cases:
    """Writes the files."""
    cases = Cases("jsonl")
    by_libraries(cases)
    by_hand(cases)
    compressed(cases, dumped(rows(300), ensure_ascii=False))
    return cases


def by_libraries(cases: Cases) -> None:
    """Those of datasets, pandas and DuckDB."""
    import datasets
    import duckdb

    datasets.disable_progress_bars()
    given = rows(40)
    frame = pandas.DataFrame(given)
    typed = pa.Table.from_pylist(given)
    database = duckdb.connect()
    database.register("given", typed)
    writers: dict[str, Callable[[Path], Any]] = {
        "datasets.jsonl": lambda path: datasets.Dataset(typed).to_json(path),
        "datasets.jsonl.gz": lambda path: datasets.Dataset(typed).to_json(path, compression="gzip"),
        "pandas.jsonl": lambda path: frame.to_json(path, orient="records", lines=True),
        "pandas.jsonl.gz": lambda path: frame.to_json(path, orient="records", lines=True, force_ascii=False),
        "pandas.jsonl.zst": lambda path: frame.to_json(path, orient="records", lines=True),
        "duckdb.jsonl": lambda path: database.sql(f"copy (from given) to '{path}' (format json)"),
    }
    for name, write in writers.items():
        path = cases.path(name)
        write(path)
        if path.suffix == ".gz":
            without_time(path)
        library = name.partition(".")[0]
        about = "integers with nulls beside them are written as 1.0" if library == "pandas" else ""
        cases.add(name, twin(path), by(library), about)


def by_hand(cases: Cases) -> None:
    """What a reader meets that no library writes on purpose."""
    given = rows(12)
    plain = dumped(given, ensure_ascii=False)
    missing = [{k: v for j, (k, v) in enumerate(row.items()) if (i + j) % 4} for i, row in enumerate(given)]
    deep = [{"id": i, "a": {"b": {"c": {"d": [[i, i + 1], [], [i]][: i % 4]}}},
             "boxes": [{"x": k, "y": k / 2} for k in range(i % 3)]} for i in range(12)]  # fmt: skip
    big = [-(2**63), 2**63 - 1, 2**53 + 1, -(2**53) - 1, 0]
    numbers = ["0", "-0", "-0.0", "1e3", "1E+2", "12.50e-1", "5e-324", "1.7976931348623157e308", "0.1"]
    escapes = [
        r'"\u0041\u00e9\u6c34"',
        r'"\ud83d\udc1f"',
        r'"\"\\\/\b\f\n\r\t"',
        r'"\u0000\u001f"',
        '"\u2028\u2029\x7f"',
        '""',
    ]
    files = {
        "plain.jsonl": (plain, ""),
        "crlf.jsonl": (plain.replace(b"\n", b"\r\n"), "lines end with CR and LF"),
        "no-final-newline.jsonl": (plain[:-1], ""),
        "blank-lines.jsonl": (
            b"\n" + plain.replace(b"\n", b"\n\n \t\n", 3) + b"\n\n",
            "lines without anything, or blanks",
        ),
        "bom.jsonl": (b"\xef\xbb\xbf" + plain, "a byte order mark"),
        "ascii.jsonl": (dumped(given), "all beyond ASCII escaped, surrogates in pairs"),
        "blanks.jsonl": (
            b"".join(
                f" {line} \t\n".encode() for line in dumped(given, separators=(" , ", "\t: ")).decode().splitlines()
            ),
            "blanks around all tokens",
        ),
        "escapes.jsonl": (
            "".join(f'{{"i": {i}, "\\u0074ext": {e}}}\n' for i, e in enumerate(escapes)).encode(),
            "each escape, also in a name",
        ),
        "numbers.jsonl": (
            "".join(f'{{"i": {i}, "x": {x}}}\n' for i, x in enumerate(numbers)).encode(),
            "each way to write a number",
        ),
        "int64.jsonl": (dumped([{"x": x} for x in big]), "the largest and the smallest, and what no double holds"),
        "uint64.jsonl": (dumped([{"x": x} for x in (0, 2**63, 2**64 - 1)]), "beyond int64"),
        "missing.jsonl": (dumped(missing, ensure_ascii=False), "rows that lack names"),
        "reordered.jsonl": (
            dumped([dict(sorted(r.items(), reverse=i % 2 == 1)) for i, r in enumerate(given)], ensure_ascii=False),
            "names in another order in each second row",
        ),
        "nested.jsonl": (dumped(deep), "structs in structs, lists of lists, lists of structs"),
        "structs.jsonl": (
            dumped(
                [
                    {"id": 0, "u": {"a": 1, "b": {"c": 2}}},
                    {"id": 1, "u": None},
                    {"id": 2},
                    {"id": 3, "u": {}},
                    {"id": 4, "u": {"b": None, "a": None}},
                    {"id": 5, "u": {"b": {"c": 5}}},
                ]
            ),
            "null, absent and empty structs",
        ),
        "lists.jsonl": (
            dumped([{"x": [1, 2]}, {"x": None}, {}, {"x": []}, {"x": [None, 3]}]),
            "null, absent and empty lists, null elements",
        ),
        "late.jsonl": (
            dumped(
                [*[{"id": i, "x": None} for i in range(20)], *[{"id": i, "x": "here", "y": 1} for i in range(20, 23)]]
            ),
            "a name whose type, and one that itself, comes late",
        ),
    }
    wide = {"uint64.jsonl": {"x": pa.uint64()}, "numbers.jsonl": {"x": pa.float64()}}
    for name, (data, about) in files.items():
        cases.path(name).write_bytes(data)
        cases.add(name, twin(cases.path(name), wide.get(name)), python("json"), about)


def compressed(cases: Cases, data: bytes) -> None:
    """The same lines in members, blocks and frames, whose borders cut lines."""
    pieces = [data[at : at + 50_000] for at in range(0, len(data), 50_000)]
    zstd = zstandard.ZstdCompressor(level=19)
    cases.path("members.jsonl.gz").write_bytes(b"".join(gzip.compress(one, mtime=0) for one in pieces))
    cases.add("members.jsonl.gz", twin(cases.path("members.jsonl.gz")), python("gzip"), "members that cut lines")
    lines = data.splitlines(keepends=True)
    groups = [b"".join(lines[at : at + 100]) for at in range(0, len(lines), 100)]
    cases.path("aligned.jsonl.gz").write_bytes(b"".join(gzip.compress(one, mtime=0) for one in groups))
    cases.add("aligned.jsonl.gz", twin(cases.path("aligned.jsonl.gz")), python("gzip"), "members of 100 whole lines")
    cases.path("frames.jsonl.zst").write_bytes(b"".join(zstd.compress(one) for one in pieces))
    cases.add("frames.jsonl.zst", twin(cases.path("frames.jsonl.zst")), by("zstandard"), "frames that cut lines")
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch, "lines.jsonl")
        raw.write_bytes(data)
        for name, command, about in (
            ("gzip.jsonl.gz", ["gzip", "-n9k"], "one member"),
            ("bgzip.jsonl.gz", ["bgzip", "-k"], "blocks of 64 KiB that cut lines"),
            ("zstd.jsonl.zst", ["zstd", "-q19f"], "one frame with a checksum"),
            ("pzstd.jsonl.zst", ["pzstd", "-q", "-p2", "-f"], "a skippable frame before each"),
        ):
            said = tool(*command, raw)
            made = Path(f"{raw}{cases.path(name).suffix}")
            cases.path(name).write_bytes(made.read_bytes())
            made.unlink()
            cases.add(name, twin(cases.path(name)), said, about)
