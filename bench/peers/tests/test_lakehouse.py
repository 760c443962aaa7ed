"""What peers.lakehouse measures with: the rest needs the systems that it compares."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from peers.lakehouse import data, readers


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_tensors_have_the_rows_of_a_slice(kind: pa.DataType) -> None:
    texts = ["ü" * (i % 3) + str(i) for i in range(20)]
    columns = {"row": np.arange(20), "text": pa.array(texts, kind)}
    columns |= {name: np.arange(20) + i for i, name in enumerate(data.NUMBERS)}
    whole = pa.RecordBatch.from_pydict(columns)
    for start, stop in ((0, 20), (3, 15), (19, 20)):
        row, dense, characters, offsets = readers.tensors(whole.slice(start, stop - start))
        assert row.tolist() == list(range(start, stop))
        assert dense.tolist() == [[float(n + i) for i in range(len(data.NUMBERS))] for n in row]
        assert [bytes(characters[a:b]).decode() for a, b in pairwise(offsets)] == texts[start:stop]
