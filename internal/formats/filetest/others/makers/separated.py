"""CSV and TSV."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.csv
import zstandard

from makers.case import Cases, by, columns, python, text, without_time

AWKWARD = (
    "plain",
    "a,b",
    'say "so"',
    "two\nlines",
    "semi;colon",
    "tab\there",
    " blanks ",
    "two\r\nlines",
    "'",
    "#not a comment",
    "\\",
    "NA",
    "null",
)


def rows(n: int, nulls: bool = True, awkward: Sequence[str] = AWKWARD) -> list[dict[str, Any]]:
    """Rows with what must be quoted."""
    return [
        {
            "id": i - 3, "price": None if nulls and i % 5 == 4 else i / 8 - 1, "name": awkward[i % len(awkward)],
            "count": None if nulls and i % 4 == 3 else i * 1_000_003, "flag": i % 3 == 0,
            "note": None if nulls and i % 3 == 1 else text(i),
        }
        for i in range(n)
    ]  # fmt: skip


def table(given: Sequence[dict[str, Any]]) -> pa.Table:
    """The columns with their types."""
    return columns(given, {"price": pa.float64(), "count": pa.int64(), "note": pa.string()})


def python_csv(given: Sequence[dict[str, Any]], null: str = "", header: bool = True, **how: Any) -> bytes:
    """Rows by Python's csv."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, **how)
    if header:
        writer.writerow(given[0])
    for row in given:
        writer.writerow([null if v is None else str(v).lower() if isinstance(v, bool) else v for v in row.values()])
    return out.getvalue().encode()


def check(data: bytes, twin: pa.Table, options: dict[str, Any]) -> None:
    """Reads a file as Python's csv does, which does not tell an empty field from a null."""
    escape = options.get("escape")
    lines = list(
        csv.reader(
            io.StringIO(data.decode("utf-8-sig"), newline=""),
            delimiter=options.get("delimiter", ","),
            quotechar=options.get("quote", '"'),
            escapechar=escape,
            doublequote=escape is None,
        )
    )
    lines = [line for line in lines if line]
    if options.get("header", True):
        names, *lines = lines
        if names != twin.column_names:
            raise SystemExit(f"the header has {names}")
    nulls = options.get("nulls", [""])
    for line, row in zip(lines, twin.to_pylist(), strict=True):
        for found, (name, want) in zip(line, row.items(), strict=True):
            if want is None or found == "":
                same = want in (None, "") and found in ("", *nulls)
            else:
                same = (found.lower() == "true") is want if isinstance(want, bool) else type(want)(found) == want
            if not same:
                raise SystemExit(f"{name} is {found!r}, not {want!r}")


def make() -> Cases:
    """Writes the files."""
    cases = Cases("csv")

    def add(name: str, data: bytes, twin: pa.Table, writer: str, about: str = "", **options: Any) -> None:
        check(data, twin, options)
        cases.path(name).write_bytes(data)
        cases.add(name, twin, writer, about, **options)

    by_libraries(add)
    by_hand(add)
    many = rows(1200, awkward=("plain", "a,b", 'say "so"', "two\nlines"))
    data = python_csv(many)
    pieces = [data[at : at + 40_000] for at in range(0, len(data), 40_000)]
    zstd = zstandard.ZstdCompressor(level=19)
    for name, made, writer, about in (
        (
            "members.csv.gz",
            b"".join(gzip.compress(one, mtime=0) for one in pieces),
            python("csv and gzip"),
            "members that cut rows",
        ),
        (
            "frames.csv.zst",
            b"".join(zstd.compress(one) for one in pieces),
            f"{python('csv')}, {by('zstandard')}",
            "frames that cut rows",
        ),
    ):
        cases.path(name).write_bytes(made)
        cases.add(name, table(many), writer, about)
    frame_gz(cases)
    return cases


def frame_gz(cases: Cases) -> None:
    """Pandas with its own compression."""
    given = rows(60)
    path = cases.path("pandas.csv.gz")
    frame(given).to_csv(path, index=False)
    without_time(path)
    cases.add("pandas.csv.gz", table(given), by("pandas"), "booleans as True and False")


def frame(given: Sequence[dict[str, Any]]) -> pandas.DataFrame:
    """A frame whose integers stay integers beside nulls."""
    return pandas.DataFrame(given).astype({"count": "Int64"})


def by_libraries(add: Callable[..., None]) -> None:
    """Those of pandas, pyarrow and DuckDB."""
    import duckdb

    given = rows(26)
    twin = table(given)
    database = duckdb.connect()
    database.register("given", twin)

    def by_duckdb(**how: Any) -> bytes:
        options = ", ".join(["format csv", *(f"{k} {v}" for k, v in how.items())])
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, "out.csv")
            database.sql(f"copy (from given) to '{path}' ({options})")
            return path.read_bytes()

    def by_arrow(**how: Any) -> bytes:
        out = io.BytesIO()
        pyarrow.csv.write_csv(twin, out, pyarrow.csv.WriteOptions(**how))
        return out.getvalue()

    def by_pandas(**how: Any) -> bytes:
        made: str = frame(given).to_csv(index=False, **how)
        return made.encode()

    capital = "booleans as True and False"
    add("pandas.csv", by_pandas(), twin, by("pandas"), capital)
    add("pandas.tsv", by_pandas(sep="\t"), twin, by("pandas"), capital, delimiter="\t")
    add(
        "pandas-crlf-na.csv",
        by_pandas(lineterminator="\r\n", na_rep="<NA>"),
        twin,
        by("pandas"),
        capital,
        nulls=["<NA>"],
    )
    add("pyarrow.csv", by_arrow(), twin, by("pyarrow"), "all text is quoted, nulls are not")
    add(
        "pyarrow-semicolon.csv",
        by_arrow(delimiter=";"),
        twin,
        by("pyarrow"),
        "all text is quoted, nulls are not",
        delimiter=";",
    )
    simple = table(rows(9, awkward=("plain", "simple")))
    out = io.BytesIO()
    pyarrow.csv.write_csv(simple, out, pyarrow.csv.WriteOptions(quoting_style="none", include_header=False))
    add("pyarrow-no-header.csv", out.getvalue(), simple, by("pyarrow"), header=False)
    add("duckdb.csv", by_duckdb(), twin, by("duckdb"))
    add(
        "duckdb-null.tsv",
        by_duckdb(delimiter=r"'\t'", nullstr=r"'\N'", force_quote="(name, note)"),
        twin,
        by("duckdb"),
        delimiter="\t",
        nulls=["\\N"],
    )


def by_hand(add: Callable[..., None]) -> None:
    """Dialects of Python's csv, and what a reader meets besides."""
    given, whole = rows(26), rows(26, nulls=False)
    plain = rows(8, nulls=False, awkward=("plain", "simple"))
    writer = python("csv")
    add("excel.csv", python_csv(given), table(given), writer, "lines end with CR and LF, which fields have, too")
    add("unix.csv", python_csv(whole, dialect="unix"), table(whole), writer, "everything is quoted")
    add(
        "escaped.csv",
        python_csv(whole, doublequote=False, escapechar="\\", lineterminator="\n"),
        table(whole),
        writer,
        "quotes inside of fields are escaped by a backslash",
        escape="\\",
    )
    add("single-quotes.csv", python_csv(whole, quotechar="'", lineterminator="\n"), table(whole), writer, quote="'")
    add(
        "pipes.csv",
        python_csv(given, null="NULL", delimiter="|", lineterminator="\n"),
        table(given),
        writer,
        delimiter="|",
        nulls=["NULL"],
    )
    add(
        "many-nulls.csv",
        python_csv(given, lineterminator="\n").replace(b"plain", b"n/a", 1).replace(b"plain", b"nil", 1),
        table([{**row, "name": None if row["name"] == "plain" else row["name"]} for row in given]),
        writer,
        "several spellings",
        nulls=["", "n/a", "nil"],
    )
    add("cr.csv", python_csv(plain, lineterminator="\r"), table(plain), writer, "lines end with CR alone")
    add("no-header.csv", python_csv(plain, header=False, lineterminator="\n"), table(plain), writer, header=False)
    add("no-final-newline.csv", python_csv(plain, lineterminator="\n")[:-1], table(plain), writer)
    add("bom.csv", b"\xef\xbb\xbf" + python_csv(plain, lineterminator="\n"), table(plain), writer, "a byte order mark")
    add(
        "blank-lines.csv",
        python_csv(plain, lineterminator="\n").replace(b"\n", b"\n\n", 3) + b"\n",
        table(plain),
        writer,
        "lines without anything",
    )
    empty = [{"id": 0, "a": "", "b": None}, {"id": 1, "a": None, "b": ""}, {"id": 2, "a": '"', "b": "\n"}]
    add(
        "empty-or-null.csv",
        b'id,a,b\n0,"",\n1,,""\n2,"""","\n"\n',
        columns(empty),
        "by hand",
        "a quoted empty field is text, an empty one is null",
    )
    names = ['a "b"', "c,d", "e\nf"]
    add(
        "header.csv",
        python_csv([dict.fromkeys(names, "x"), dict.fromkeys(names, "y")]),
        columns([dict.fromkeys(names, "x"), dict.fromkeys(names, "y")]),
        writer,
        "names that are quoted",
    )
    one = [{"word": w} for w in ("a", "", "b")]
    add("one-column.csv", b'word\na\n""\nb\n', columns(one), "by hand", "one column, whose empty field is quoted")
    numbers = [{"i": 0, "x": 1000.0}, {"i": -(2**63), "x": -0.0}, {"i": 2**63 - 1, "x": 5e-324}, {"i": 7, "x": 1.25}]
    add(
        "numbers.csv",
        b"i,x\n0,1e3\n-9223372036854775808,-0.0\n+9223372036854775807,5E-324\n007,+1.25\n",
        columns(numbers),
        "by hand",
        "signs, exponents, leading zeros",
    )
