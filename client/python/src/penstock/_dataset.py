"""What a dataset holds, for the error of a loader that was not told what to read of it: `penstock show` looks.

Everything here may be called from any thread, and changes nothing.
"""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import re
import subprocess
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock import _binary
from penstock._look import aligned
from penstock.spec import absolute

_FILES = 16  # to look at, at most
_ROWS = 3  # to show
_COLUMNS = 40  # to show, at most
_TIMEOUT = 60.0  # seconds
_LABELS = ("label", "labels", "target", "y", "click", "clicked")
_WIDTH = 50  # of the first values, in characters

Column = Mapping[str, Any]


def described(uri: Any, storage: str = "") -> str:
    """What `uri` holds and how to read it, in lines to show; or why that cannot be told."""
    uris = [uri] if isinstance(uri, (str, os.PathLike)) else list(uri)
    if not uris:
        return "The list of URIs is empty."
    first = absolute(uris[0])
    try:
        shown = _show(first, storage)
    except (OSError, ValueError, subprocess.SubprocessError) as err:
        return f"What {first} holds cannot be told here: {err}"
    return "\n".join([_headline(shown), "", *_table(shown), "", *proposal(shown["columns"])])


def _show(uri: str, storage: str) -> dict[str, Any]:
    binary = _binary.find()
    if binary is None:
        raise OSError(_binary.advice())
    flags = ["--output=json", f"--head={_ROWS}", f"--files={_FILES}", *([f"--storage={storage}"] if storage else [])]
    done = subprocess.run(
        [binary, "show", *flags, "--", uri], capture_output=True, text=True, timeout=_TIMEOUT, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != 0:
        raise OSError(done.stderr.strip().removeprefix("penstock: ") or f"penstock show ends with {done.returncode}")
    shown: dict[str, Any] = json.loads(done.stdout)
    return shown


def _headline(shown: Mapping[str, Any]) -> str:
    files, listed = shown["files"], shown["listed"]
    where = _count(files, "file") if files == listed else f"the first {files} of {_count(listed, 'file')}"
    return f"{shown['uri']} has {_count(shown['rows'], 'row')} in {where}:"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" + ("" if n == 1 else "s")


def _table(shown: Mapping[str, Any]) -> list[str]:
    columns = shown["columns"]
    maps = _maps(columns)
    rows = [("column", "type", "can be", "first rows")]
    for c in columns[:_COLUMNS]:
        values = ", ".join(json.dumps(row.get(c["name"]), ensure_ascii=False) for row in shown["head"])
        values = values if len(values) <= _WIDTH else values[: _WIDTH - 3] + "..."
        kind = " ".join(filter(None, (c.get("type"), c.get("meaning"))))
        rows.append((c["name"], kind, _can_be(c, maps), "" if c["name"] in maps else values))
    lines = [textwrap.indent(aligned(rows), "  ")]
    if len(columns) > _COLUMNS:
        lines.append(f"  ... and {len(columns) - _COLUMNS} more (`penstock show {shown['uri']}` shows all)")
    return lines


def _maps(columns: Iterable[Column]) -> set[str]:
    return {c["name"] for c in columns if c.get("type", "").startswith("map<")}


def _can_be(column: Column, maps: set[str]) -> str:
    """Which features a column can be."""
    if column.get("unsupported"):
        return f"none: {column['unsupported']}"
    name, kind = column["name"], column["type"]
    if name in maps:
        return f"{name}.KEY is a column for each key"
    if kind == "list<bool>":
        return "input of transforms"
    if kind == "binary":
        return "bytes, sparse if hashed"
    if kind == "list<binary>":
        return "sparse if hashed"
    if kind.startswith("list<"):
        return "sparse"
    return "dense, label, sparse" if kind.startswith("int") else "dense, label"


def proposal(columns: Sequence[Column]) -> list[str]:
    """Arguments to paste: numbers are dense, texts are hashed to ids; what is called like a label is one."""
    chosen: dict[str, list[str]] = {"label": [], "dense": [], "sparse": []}
    hashed: list[str] = []
    maps = _maps(columns)
    for c in columns:
        name, kind = c["name"], c.get("type", "")
        layout = _layout(c, maps)
        if layout:
            chosen[layout].append(name)
            hashed += [name] if "binary" in kind else []
    if not any(chosen.values()):
        return ["No column of it can be a feature."]
    names = [c["name"] for c in columns]
    parts = [f"penstock.{kind}({_listed(some, names)})" for kind, some in chosen.items() if some]
    lines = ["To read it, give for example", "    features=" + " + ".join(parts) + ","]
    if hashed:
        lines.append(f"    transforms=penstock.sigrid_hash({_listed(hashed, names, always=True)}, max=1_000_000),")
    return [*lines, "    batch_size=1024,"]


def _layout(column: Column, maps: set[str]) -> str:
    """What is proposed for a column; "" for nothing."""
    name, kind = column["name"], column.get("type", "")
    inside = name.rpartition(".")[0] in maps and name.rpartition(".")[2] in ("key", "value")
    plain = not re.search(r"[*?\[\]\\{}]", name) and name not in ("", "_file", "_row")
    if column.get("unsupported") or column.get("meaning") or inside or not plain or kind in ("", "list<bool>"):
        return ""
    if kind == "binary" or kind.startswith("list<"):
        return "sparse"
    if kind.startswith("map<"):
        return ""
    if name.lower() in _LABELS:
        return "label"
    return "sparse" if kind.startswith("int") and re.search(r"(^|_)id$", name.lower()) else "dense"


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
