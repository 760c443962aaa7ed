"""What a dataset holds: schema(), and the error of a loader that was not told what to read. `penstock show` looks.

Everything here may be called from any thread, and changes nothing.
"""

from __future__ import annotations

import fnmatch
import html
import itertools
import json
import os
import re
import subprocess
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from penstock import _binary
from penstock._look import ByName, aligned, html_table
from penstock._paths import absolute
from penstock._values import check_integer, check_text
from penstock.errors import DataError, UsageError

_FILES = 16  # to look at, at most
_ROWS = 3  # to show
_COLUMNS = 40  # to show, at most
_TIMEOUT = 60.0  # seconds
_LABELS = ("label", "labels", "target", "y", "click", "clicked")
_WIDTH = 50  # of the first values, in characters


class Column(NamedTuple):
    """A column of a dataset.

    Attributes:
        name: as features name it.
        type: as the files have it, such as "int8" or "list<float16>"; "" of what cannot be a feature.
        layouts: those that take it as it is, by the names of their builders ("bytes" is that of bytes_).
        shape: of a row's values; () is one value, (None,) any number. Fixed-size lists have theirs.
        meaning: what integers stand for, such as "timestamp[us]"; else "".
        unsupported: why it cannot be a feature; else "".
        first: its values in the first rows; nulls are None, and bytes that are no text are hexadecimal digits.
        nulls: how many there are, None if some file does not tell.
        min: a bound of all values, None if some file does not tell.
        max: as min.
    """

    name: str
    type: str
    layouts: tuple[str, ...] = ()
    shape: tuple[int | None, ...] = ()
    meaning: str = ""
    unsupported: str = ""
    first: tuple[Any, ...] = ()
    nulls: int | None = None
    min: Any = None
    max: Any = None


class Schema(ByName[Column]):
    """The columns of a dataset, in their order; schema[name] is one by its name.

    Attributes:
        uri: of the dataset.
        rows: of the files that were looked at.
        files: how many were looked at.
        listed: how many files there are.
    """

    uri: str
    rows: int
    files: int
    listed: int

    @classmethod
    def of(cls, shown: Mapping[str, Any]) -> Schema:
        """What `penstock show` tells."""
        made = cls(_column(c, shown["head"]) for c in shown["columns"])
        made.uri, made.rows = shown["uri"], shown["rows"]
        made.files, made.listed = shown["files"], shown["listed"]
        return made

    def __repr__(self) -> str:
        return "\n".join([self._headline(), "", textwrap.indent(aligned(self._cells()), "  "), *self._rest()])

    def _repr_html_(self) -> str:
        head, *rest = (f"<p>{html.escape(line.strip())}</p>" for line in (self._headline(), *self._rest()))
        return "".join([head, html_table(self._cells()), *rest])

    def _headline(self) -> str:
        files, listed = self.files, self.listed
        where = _count(files, "file") if files == listed else f"the first {files} of {_count(listed, 'file')}"
        return f"{self.uri} has {_count(self.rows, 'row')} in {where}:"

    def _cells(self) -> list[tuple[str, ...]]:
        maps = _maps(self)
        rows: list[tuple[str, ...]] = [("column", "type", "can be", "first rows")]
        for c in self[:_COLUMNS]:
            values = ", ".join(json.dumps(value, ensure_ascii=False) for value in c.first)
            values = values if len(values) <= _WIDTH else values[: _WIDTH - 3] + "..."
            shape = "" if None in c.shape or not c.shape else str(list(c.shape))
            kind = " ".join(filter(None, (c.type, shape, c.meaning)))
            rows.append((c.name, kind, _can_be(c, maps), "" if c.name in maps else values))
        return rows

    def _rest(self) -> list[str]:
        more = len(self) - _COLUMNS
        return [f"  ... and {more} more (`penstock show {self.uri}` shows all)"] if more > 0 else []


def schema(
    uri: str | os.PathLike[str], *, split: str = "", subset: str = "", storage: str = "", rows: int = _ROWS,
    files: int = _FILES,
) -> Schema:  # fmt: skip
    """What a dataset holds, without a spec and without a fleet: its columns, their types, what each can be, first rows.

        schema = penstock.schema("s3://bucket/clicks/")
        schema                                             # a table
        schema["embedding"].type, schema["embedding"].shape    # "list<float16>", (768,)
        [c.name for c in schema if "dense" in c.layouts]

    It looks at the footers of files, and reads no more than the first rows need. `penstock show URI` shows the same.
    What a loader's batches have is loader.schema.

    Args:
        uri: of a folder or a file, or a glob, as DataLoader takes it. Storage is read from this process.
        split: of a folder, the files of a split, as DataLoader takes it.
        subset: the subset of the split.
        storage: the name of a storage profile.
        rows: how many of the first ones to have.
        files: look at so many files at most. Others may have more columns.

    Raises:
        DataError: there are no such files, or they cannot be read.
        UsageError: there is no penstock binary here.
    """
    chosen = {"split": split, "subset": subset, "storage": storage}
    for name, value in chosen.items():
        check_text(name, value)
    check_integer("rows", rows, least=0)
    check_integer("files", files, least=1)
    binary = _binary.find()
    if binary is None:
        raise UsageError(_binary.advice())
    flags = ["--output=json", f"--head={rows}", f"--files={files}"]
    flags += [f"--{name}={value}" for name, value in chosen.items() if value]
    try:
        done = subprocess.run(
            [binary, "show", *flags, "--", absolute(uri)], capture_output=True, text=True, timeout=_TIMEOUT,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.SubprocessError) as err:
        raise DataError(f"{uri}: {err}") from err
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("penstock: ")
        raise DataError(said or f"penstock show {uri} ends with {done.returncode}")
    return Schema.of(json.loads(done.stdout))


def described(uri: Any, storage: str = "", split: str = "", subset: str = "") -> str:
    """What `uri` holds and how to read it, in lines to show; or why that cannot be told."""
    uris = [uri] if isinstance(uri, (str, os.PathLike)) else list(uri)
    if not uris:
        return "The list of URIs is empty."
    try:
        found = schema(uris[0], storage=storage, split=split, subset=subset)
    except (DataError, UsageError, OSError) as err:
        return f"What {absolute(uris[0])} holds cannot be told here: {err}"
    return "\n".join([repr(found), "", *proposal(found)])


def _column(c: Mapping[str, Any], head: Sequence[Mapping[str, Any]]) -> Column:
    kind = c.get("type", "")
    return Column(
        c["name"], kind, tuple(c.get("layouts", ())), tuple(c.get("shape", [None] * kind.count("list<"))),
        c.get("meaning", ""), c.get("unsupported", ""), tuple(row.get(c["name"]) for row in head),
        c.get("nulls"), c.get("min"), c.get("max"),
    )  # fmt: skip


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _maps(columns: Iterable[Column]) -> set[str]:
    return {c.name for c in columns if c.type.startswith("map<")}


def _can_be(column: Column, maps: set[str]) -> str:
    """Which features a column can be."""
    if column.unsupported:
        return f"none: {column.unsupported}"
    if column.name in maps:
        return f"{column.name}.KEY is a column for each key"
    hashed = ["sparse if hashed"] if column.type in ("binary", "list<binary>") else []
    return ", ".join([*column.layouts, *hashed]) or "input of transforms"


def proposal(columns: Sequence[Column]) -> list[str]:
    """Arguments to paste: numbers are dense, texts are hashed to ids; what is called like a label is one."""
    chosen: dict[str, list[str]] = {"label": [], "dense": [], "sparse": [], "tensor": []}
    hashed: list[str] = []
    maps = _maps(columns)
    for c in columns:
        layout = _layout(c, maps)
        if layout:
            chosen[layout].append(c.name)
            hashed += [c.name] if "binary" in c.type else []
    if not any(chosen.values()):
        return ["No column of it can be a feature."]
    names = [c.name for c in columns]
    parts = [f"penstock.{kind}({_listed(some, names)})" for kind, some in chosen.items() if some]
    lines = ["To read it, give for example", "    features=" + " + ".join(parts) + ","]
    if hashed:
        lines.append(f"    transforms=penstock.sigrid_hash({_listed(hashed, names, always=True)}, max=1_000_000),")
    return [*lines, "    batch_size=1024,"]


def _layout(column: Column, maps: set[str]) -> str:
    """What is proposed for a column; "" for nothing."""
    name, kind = column.name, column.type
    inside = name.rpartition(".")[0] in maps and name.rpartition(".")[2] in ("key", "value")
    plain = not re.search(r"[*?\[\]\\{}]", name) and name not in ("", "_file", "_row")
    if column.unsupported or column.meaning or inside or not plain or not kind or kind.startswith("map<"):
        return ""
    if kind in ("binary", "list<binary>"):
        return "sparse"
    if kind.startswith("list<"):
        shaped = "tensor" if "tensor" in column.layouts and None not in column.shape else ""
        return shaped or ("sparse" if "sparse" in column.layouts else "")
    if name.lower() in _LABELS:
        return "label"
    return "sparse" if re.match("u?int", kind) and re.search(r"(^|_)id$", name.lower()) else "dense"


def _listed(some: Sequence[str], names: Sequence[str], always: bool = False) -> str:
    """Names as arguments, or as one list; numbered ones are a glob if that matches no others."""
    out: list[str] = []
    for stem, group in itertools.groupby(some, lambda name: name.rstrip("0123456789")):
        same = list(group)
        glob = f"{stem}*"
        whole = stem and len(same) > 2 and set(fnmatch.filter(names, glob)) == set(same)
        out += [glob] if whole else same
    text = ", ".join(json.dumps(name, ensure_ascii=False) for name in out)
    return f"[{text}]" if always and len(out) > 1 else text
