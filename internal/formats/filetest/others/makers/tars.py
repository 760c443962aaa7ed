"""WebDataset's tars."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import zstandard

import webdataset
from makers.case import Cases, by, columns, picture, python, text, tool, version_of, without_time

Sample = dict[str, Any]
LONG = "a-name-that-does-not-fit-into-the-hundred-bytes-of-a-header/" * 3
TYPES = {"cls": pa.int64(), "npy": pa.list_(pa.float32()), "jpg": pa.binary(), "seg.png": pa.binary()}


def sample(i: int, key: str) -> Sample:
    """A sample as a user has it, whose parts are named by extension."""
    caption = {
        "caption": text(i + 1), "size": {"w": 16 + i % 7, "h": 12 + i % 5}, "score": i / 4,
        "tags": [text(k) for k in range(i % 3)], "safe": None if i % 4 == 3 else i % 2 == 0,
    }  # fmt: skip
    vector = np.arange(i, i + 3 + i % 2, dtype=np.float32) / 8
    return {"__key__": key, "jpg": picture(i), "txt": text(i) if i % 5 else "", "cls": 7 * i - 3, "json": caption,
            "seg.png": picture(i, "PNG"), "npy": vector}  # fmt: skip


def samples(n: int, key: str = "{:06d}") -> list[Sample]:
    """The samples of a tar."""
    return [sample(i, key.format(i)) for i in range(n)]


def encoded(one: Sample) -> dict[str, bytes]:
    """The members of a sample, encoded as webdataset does, in the order in which it writes them."""
    said = webdataset.writer.default_handlers
    return {
        name: value if isinstance(value, bytes) else said[name.rpartition(".")[2]](value)
        for name, value in sorted(one.items()) if name != "__key__"
    }  # fmt: skip


def twin(given: Sequence[Sample]) -> pa.Table:
    """A column for each extension, and one for each field of the JSON."""
    rows = []
    for one in given:
        row = {name: value for name, value in one.items() if name != "json"}
        if "npy" in one:
            row["npy"] = one["npy"].tolist()
        row |= {f"json.{name}": value for name, value in flat(one.get("json", {}))}
        rows.append(row)
    return columns(rows, TYPES)


def flat(fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The fields by dotted path."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", v) for inner, v in flat(value))
        else:
            yield name, value


def check(path: Path, given: Sequence[Sample]) -> None:
    """Reads a tar as webdataset does, which must find the samples."""
    # Its tarfile knows neither zstd nor several members of gzip.
    pipes = {".zst": f"pipe:zstd -dc {path}", ".gz": f"pipe:gzip -dc {path}"}
    found = webdataset.WebDataset(pipes.get(path.suffix, str(path)), shardshuffle=False, empty_check=False)
    for want, got in zip(given, found, strict=True):
        if got["__key__"] != want["__key__"]:
            raise SystemExit(f"{path}: webdataset reads the key {got['__key__']}, not {want['__key__']}")
        members = {name: value for name, value in got.items() if not name.startswith("__")}
        if members != encoded(want):
            raise SystemExit(f"{path}: webdataset reads other members of {got['__key__']}")


def write(target: Any, given: Sequence[Sample], **more: Any) -> None:
    """Writes samples by TarWriter."""
    with webdataset.TarWriter(target, mtime=0, **more) as out:
        for one in given:
            out.write(one)


def by_tarfile(path: Path, given: Sequence[Sample], kind: int, *, upper: bool = False) -> None:
    """Writes samples by Python's tarfile, some with extensions in capitals if upper."""
    with tarfile.open(path, "w", format=kind) as out:
        for i, one in enumerate(given):
            for name, value in encoded(one).items():
                info = tarfile.TarInfo(f"{one['__key__']}.{name.upper() if upper and i % 2 else name}")
                info.size = len(value)
                out.addfile(info, io.BytesIO(value))


def by_command(path: Path, given: Sequence[Sample], *flags: str, names: str = ".") -> str:
    """Writes samples by GNU tar, which puts their folders into the tar, too."""
    with tempfile.TemporaryDirectory() as scratch:
        for one in given:
            for name, value in encoded(one).items():
                file = Path(scratch, f"{one['__key__']}.{name}")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(value)
        Path(scratch, "train/README").write_text("what has no extension is no part of a sample\n")
        return tool("tar", "--sort=name", "--mtime=@0", "--owner=root:0", "--group=root:0", "--mode=644", *flags,
                    "-C", scratch, "-cf", str(path), names)  # fmt: skip


def list_members(path: Path) -> None:
    """Writes the list that DALI's wds2idx 1.2 does, which asks GNU tar at which blocks headers are, too."""
    said = subprocess.run(["tar", "--list", "--block-num", "--quoting-style=literal", "--file", str(path)],
                          check=True, capture_output=True, text=True)  # fmt: skip
    blocks = [int(line.split(":")[0].removeprefix("block ")) for line in said.stdout.splitlines()]
    lines: dict[str, list[str]] = {}
    with tarfile.open(path) as members:
        for member, header in zip(members, blocks, strict=False):
            dot = member.name.find(".", member.name.rfind("/") + 1)
            key, ending = member.name[:dot], member.name[dot + 1 :]
            lines.setdefault(key, []).append(f"{ending} {512 * (header + 1)} {member.size} {member.name}")
    text = "".join(" ".join(line) + "\n" for line in lines.values())
    path.with_suffix(".idx").write_text(f"v1.2 {len(lines)}\n{text}")


def make() -> Cases:
    """Writes the tars."""
    cases = Cases("webdataset")
    few, many, missing = samples(6), samples(24), samples(7)
    for i, one in enumerate(missing):
        for name in [("txt",), ("seg.png", "npy"), ("json",), ()][i % 4]:
            del one[name]
    writer = by("webdataset") + "'s TarWriter"

    def add(name: str, given: Sequence[Sample], by: str, about: str = "") -> None:
        check(cases.path(name), given)
        cases.add(name, twin(given), by, about)

    write(str(cases.path("plain.tar")), few)
    add("plain.tar", few, writer)
    write(str(cases.path("missing.tar")), missing)
    add("missing.tar", missing, writer, "samples that lack parts")
    write(str(cases.path("stream.tar.gz")), many, compress=True)
    without_time(cases.path("stream.tar.gz"))
    add("stream.tar.gz", many, writer, "one member of gzip")

    inner = cases.path("plain.tar").read_bytes()[:12_288]
    nested = [{"__key__": f"{i:03d}", "cls": i, "tar": inner[512 * i :]} for i in range(3)]
    write(str(cases.path("nested.tar")), nested)
    add("nested.tar", nested, writer, "a part that is a tar")

    whole = io.BytesIO()
    write(whole, many)
    compress(cases, whole.getvalue(), lambda name, by, about: add(name, many, f"{writer}, {by}", about))

    for name, kind in (("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
        long = [*samples(3, "v1.0/{:03d}"), *(sample(i, f"{LONG}schlüssel/{i:03d}") for i in range(3, 5))]
        by_tarfile(cases.path(f"{name}.tar"), long, kind)
        add(f"{name}.tar", long, python("tarfile"), "long names, more than ASCII, a dot in a folder's name")
    prefixed = samples(5, LONG[:119] + "/{:03d}")
    by_tarfile(cases.path("ustar.tar"), prefixed, tarfile.USTAR_FORMAT, upper=True)
    add("ustar.tar", prefixed, python("tarfile"), "names in two parts; some extensions in capitals")

    for name in ("plain", "missing", "gnu", "pax", "ustar"):
        list_members(cases.path(f"{name}.tar"))

    folders = [*samples(3, "./train/a/{:03d}"), *samples(3, "./train/b/{:03d}")]
    said = by_command(cases.path("folders-gnu.tar"), folders, "--format=gnu")
    add("folders-gnu.tar", folders, said, "folders, names that begin with ./, a file without extension")
    folders = [*samples(3, "train/a/{:03d}"), *samples(2, f"train/{LONG}{{:03d}}")]
    said = by_command(cases.path("folders-pax.tar"), folders, "--format=posix",
                      "--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime", names="train")  # fmt: skip
    add("folders-pax.tar", folders, said, "folders, long names, a file without extension")
    return cases


def compress(cases: Cases, whole: bytes, add: Any) -> None:
    """The same tar in members and frames."""
    frames = [whole[at : at + 40_000] for at in range(0, len(whole), 40_000)]
    zstd = zstandard.ZstdCompressor(level=3)
    cases.path("frames.tar.zst").write_bytes(b"".join(zstd.compress(one) for one in frames))
    add("frames.tar.zst", by("zstandard"), "a frame for each 40,000 bytes, with their sizes")
    with cases.path("stream.tar.zst").open("wb") as out, zstd.stream_writer(out) as stream:
        for one in frames:
            stream.write(one)
    add("stream.tar.zst", by("zstandard"), "one frame, without its size")
    with tempfile.TemporaryDirectory() as scratch:
        raw = Path(scratch, "whole.tar")
        raw.write_bytes(whole)
        tool("bgzip", raw)
        cases.path("blocks.tar.gz").write_bytes(Path(f"{raw}.gz").read_bytes())
    add("blocks.tar.gz", version_of("bgzip"), "a member of gzip for each 64 KiB")
