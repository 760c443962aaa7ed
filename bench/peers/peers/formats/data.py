"""The datasets: each in the format that is measured, by the writer of its own, and the same rows as Parquet."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Row = dict[str, Any]

ROWS = {"tar": 3_000, "jsonl": 400_000, "tfrecord": 400_000, "mds": 100_000, "csv": 400_000, "tokens": 100_000}
FILES = 8
PHOTOS = 128  # in a row group of the Parquet
DENSE, TOKENS = 13, 256
WIDTH, HEIGHT = 400, 300
WORDS = np.array(
    [
        "river",
        "water",
        "stone",
        "wheel",
        "power",
        "flow",
        "gate",
        "head",
        "race",
        "tail",
        "pool",
        "weir",
        "dam",
        "spill",
        "surge",
        "shaft",
    ]
)


def make(workload: str, folder: Path) -> Path:
    """Writes the dataset, unless it is there: its files, and in twin/ the same rows as Parquet."""
    data = folder / f"formats-{workload}"
    if data.exists():
        return data
    aside = data.with_suffix(".part")
    (aside / "twin").mkdir(parents=True, exist_ok=True)
    WRITERS[workload](aside, ROWS[workload])
    aside.rename(data)
    return data


def twin(aside: Path, part: int, columns: dict[str, Any], group_rows: int = 1 << 14) -> None:
    """Writes one file of the Parquet."""
    pq.write_table(pa.table(columns), aside / f"twin/part-{part:03}.parquet", row_group_size=group_rows)


def parts(rows: int) -> Iterator[tuple[int, range]]:
    """The rows of each file."""
    for part in range(FILES):
        yield part, range(part * rows // FILES, (part + 1) * rows // FILES)


def words(rng: np.random.Generator, n: int) -> str:
    """Some text."""
    return " ".join(WORDS[rng.integers(0, len(WORDS), n)])


def photograph(rng: np.random.Generator) -> bytes:
    """A JPEG of some 15 KB: smooth, with grain."""
    from PIL import Image

    smooth = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)).resize((WIDTH, HEIGHT))
    grain = rng.integers(-8, 9, (HEIGHT, WIDTH, 1))
    out = io.BytesIO()
    Image.fromarray(np.clip(np.asarray(smooth) + grain, 0, 255).astype(np.uint8)).save(out, "JPEG", quality=85)
    return out.getvalue()


def tar(aside: Path, rows: int) -> None:
    """JPEGs and captions, by webdataset."""
    import webdataset

    rng = np.random.default_rng(1)
    for part, numbers in parts(rows):
        photos = [photograph(rng) for _ in numbers]
        captions = [words(rng, 12) for _ in numbers]
        with webdataset.TarWriter(str(aside / f"part-{part:03}.tar"), mtime=0) as out:
            for i, photo, caption in zip(numbers, photos, captions, strict=True):
                out.write({"__key__": f"{i:08}", "jpg": photo, "txt": caption})
        twin(aside, part, {"jpg": pa.array(photos, pa.binary()), "txt": captions}, PHOTOS)


def jsonl(aside: Path, rows: int) -> None:
    """Text with ids and numbers, of which a part is read, as one frame of zstd a file."""
    import zstandard

    rng = np.random.default_rng(2)
    for part, numbers in parts(rows):
        made: list[Row] = [
            {
                "id": i, "url": f"https://example.com/{i:x}/{words(rng, 2).replace(' ', '-')}", "text": words(rng, 60),
                "label": int(rng.integers(0, 10)), "score": float(np.float32(rng.random())),
                "ids": rng.integers(0, 1_000_000, rng.integers(0, 11)).tolist(),
                "meta": {"language": "en", "source": {"crawl": part, "line": i}},
            }
            for i in numbers
        ]  # fmt: skip
        lines = "".join(json.dumps(row) + "\n" for row in made).encode()
        (aside / f"part-{part:03}.jsonl.zst").write_bytes(zstandard.ZstdCompressor(level=3).compress(lines))
        columns: dict[str, Any] = {
            name: [row[name] for row in made] for name in ("id", "text", "label", "score", "ids")
        }
        twin(aside, part, columns)


def tfrecord(aside: Path, rows: int) -> None:
    """Numbers and ids, by TensorFlow."""
    import tensorflow as tf

    def feature(**kind: Any) -> Any:
        return tf.train.Feature(**kind)

    rng = np.random.default_rng(3)
    for part, numbers in parts(rows):
        dense = rng.standard_normal((len(numbers), DENSE), np.float32)
        ids = [rng.integers(0, 1_000_000, n) for n in rng.integers(0, 51, len(numbers))]
        label = rng.integers(0, 2, len(numbers))
        with tf.io.TFRecordWriter(str(aside / f"part-{part:03}.tfrecord")) as out:
            for i in range(len(numbers)):
                features = {
                    "label": feature(int64_list=tf.train.Int64List(value=[label[i]])),
                    "dense": feature(float_list=tf.train.FloatList(value=dense[i])),
                    "ids": feature(int64_list=tf.train.Int64List(value=ids[i])),
                }
                out.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
        flat = pa.array(dense.reshape(-1))
        twin(aside, part, {"label": label, "dense": pa.FixedSizeListArray.from_arrays(flat, DENSE), "ids": ids})


def mds(aside: Path, rows: int) -> None:
    """Tokens, a label and text, by streaming."""
    from streaming import MDSWriter

    rng = np.random.default_rng(4)
    tokens = rng.integers(0, 50_000, (rows, TOKENS), dtype=np.int32)
    label, texts = rng.integers(0, 10, rows), [words(rng, 20) for _ in range(rows)]
    columns = {"tokens": f"ndarray:int32:{TOKENS}", "label": "int", "text": "str"}
    with MDSWriter(out=str(aside / "mds"), columns=columns, size_limit=1 << 24) as out:
        for i in range(rows):
            out.write({"tokens": tokens[i], "label": int(label[i]), "text": texts[i]})
    for part, n in parts(rows):
        flat = pa.array(tokens[n.start : n.stop].reshape(-1))
        of = slice(n.start, n.stop)
        twin(
            aside,
            part,
            {"tokens": pa.FixedSizeListArray.from_arrays(flat, TOKENS), "label": label[of], "text": texts[of]},
        )


def csv(aside: Path, rows: int) -> None:
    """Numbers and text, which has commas and so is in quotes now and then, by pyarrow; of six columns four are read."""
    from pyarrow import csv

    rng = np.random.default_rng(5)
    for part, numbers in parts(rows):
        columns: dict[str, Any] = {
            "id": pa.array(numbers), "label": rng.integers(0, 10, len(numbers)),
            "score": rng.random(len(numbers), np.float32).astype(np.float64),
            "text": [words(rng, 12) + (", " + words(rng, 3) if i % 4 == 0 else "") for i in numbers],
        }  # fmt: skip
        more = {"url": [f"https://example.com/{i:x}" for i in numbers], "line": pa.array(numbers)}
        csv.write_csv(pa.table(columns | more), aside / f"part-{part:03}.csv", csv.WriteOptions(quoting_style="needed"))
        twin(aside, part, columns)


def tokens(aside: Path, rows: int) -> None:
    """Documents of 1 to 1,023 tokens of two bytes, as Megatron's preprocess_data.py writes them."""
    rng = np.random.default_rng(6)
    for part, numbers in parts(rows):
        lengths = rng.integers(1, 1024, len(numbers), dtype=np.int32)
        starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        content = rng.integers(0, 50_000, starts[-1], dtype=np.uint16)
        content.tofile(aside / f"part-{part:03}.bin")
        head = struct.pack("<9sQBQQ", b"MMIDIDX", 1, 8, len(lengths), len(lengths) + 1)
        documents = np.arange(len(lengths) + 1, dtype=np.int64)
        arrays = (lengths.tobytes(), (2 * starts[:-1]).tobytes(), documents.tobytes())
        (aside / f"part-{part:03}.idx").write_bytes(head + b"".join(arrays))
        offsets = pa.array(starts.astype(np.int32))
        twin(aside, part, {"tokens": pa.ListArray.from_arrays(offsets, pa.array(content))}, 1 << 12)


WRITERS: dict[str, Callable[[Path, int], None]] = {
    "tar": tar, "jsonl": jsonl, "tfrecord": tfrecord, "mds": mds, "csv": csv, "tokens": tokens,
}  # fmt: skip
