"""Files of token ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from makers.case import Cases, by

Document = list[list[int]]  # its sequences


def documents(n: int, vocabulary: int, empty: bool = True) -> list[Document]:
    """Documents of some sequences each, one of them without any token."""
    rng = np.random.default_rng(vocabulary)
    lengths = rng.integers(1, 60, (n, 3))
    if empty:
        lengths[n // 2, 1] = 0
    made = [[rng.integers(0, vocabulary, k).tolist() for k in row[: 1 + i % 3]] for i, row in enumerate(lengths)]
    made[0][0][:2] = [0, vocabulary - 1]
    return made


def by_document(given: list[Document], token: pa.DataType) -> pa.Table:
    """A row for each document: its tokens."""
    joined = [[t for sequence in document for t in sequence] for document in given]
    return pa.table({"tokens": pa.array(joined, pa.list_(token))})


def by_sequence(given: list[Document], token: pa.DataType) -> pa.Table:
    """A row for each sequence: its tokens, and the number of its document."""
    flat = [(i, sequence) for i, document in enumerate(given) for sequence in document]
    return pa.table({
        "tokens": pa.array([tokens for _, tokens in flat], pa.list_(token)),
        "document": pa.array([i for i, _ in flat], pa.int64()),
    })  # fmt: skip


def make() -> Cases:
    """Writes the files."""
    cases = Cases("tokens")
    megatron(cases)
    arrays(cases)
    return cases


def megatron(cases: Cases) -> None:
    """Megatron's pairs of .bin and .idx."""
    import torch
    from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

    kinds: dict[str, tuple[Any, int]] = {"uint16": (np.uint16, 1 << 16), "int32": (np.int32, 1 << 31)}
    for name, (kind, vocabulary) in kinds.items():
        given = documents(40, vocabulary)
        prefix = cases.path(f"megatron-{name}")
        builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=kind)
        for document in given:
            for sequence in document:
                builder.add_item(torch.tensor(sequence, dtype=torch.int64))
            builder.end_document()
        builder.finalize(f"{prefix}.idx")
        found = IndexedDataset(str(prefix))
        flat = [sequence for document in given for sequence in document]
        if [found[i].tolist() for i in range(len(found))] != flat:
            raise SystemExit(f"{prefix}: Megatron reads something else")
        token = pa.from_numpy_dtype(kind)
        twin = by_sequence(given, token)
        cases.add(f"megatron-{name}.bin", twin, by("megatron-core"),
                  "a row is a sequence; the twin's `document` is the number of the document that it is in")  # fmt: skip


def arrays(cases: Cases) -> None:
    """Arrays of token ids alone, and those with an index of documents."""
    from datatrove.pipeline.tokens.tokenizer import TokenizedFile

    given = documents(50, 50_257, empty=False)
    twin = by_document(given, pa.uint16())
    tokens = twin["tokens"].combine_chunks()
    flat, ends = tokens.values.to_numpy(), tokens.offsets.to_numpy().astype(np.int64)

    array = np.memmap(cases.path("flat.bin"), dtype=np.uint16, mode="w+", shape=flat.shape)
    array[:] = flat
    array.flush()
    np.save(cases.path("flat.bin.docs.npy"), ends)
    cases.add("flat.bin", twin, by("numpy"), "np.memmap; flat.bin.docs.npy has where documents begin (int64)",
              dtype="uint16", documents="flat.bin.docs.npy")  # fmt: skip
    np.save(cases.path("flat.npy"), flat)
    np.save(cases.path("flat.npy.docs.npy"), ends)
    cases.add("flat.npy", twin, by("numpy"), "np.save; documents as in flat.bin", documents="flat.npy.docs.npy")

    for width, kind in ((2, pa.uint16()), (4, pa.uint32())):
        name = f"datatrove-{8 * width}.ds"
        out = TokenizedFile(str(cases.folder), name, token_size=width)
        for row in twin["tokens"].to_pylist():
            out.write(row, None)
        out.close()
        cases.add(name, by_document(given, kind), by("datatrove"),
                  f"{name}.index has where documents end (uint64, in tokens)", dtype=f"uint{8 * width}")  # fmt: skip
