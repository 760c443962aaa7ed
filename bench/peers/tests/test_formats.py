"""What peers.formats measures with: the rest needs what bench/peers/requirements.txt has."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa

from peers.formats import data, texts


def test_files_have_all_rows() -> None:
    for rows in (1, 7, 3000):
        assert [i for _, numbers in data.parts(rows) for i in numbers] == list(range(rows))


def test_a_part_of_a_table_is_its_rows_alone() -> None:
    rows = [
        {"id": i, "label": -i, "score": i / 4, "ids": list(range(i % 4)), "text": "ü" * (i % 3), "url": "x"}
        for i in range(20)
    ]
    whole = pa.concat_tables([pa.Table.from_pylist(rows[:9]), pa.Table.from_pylist(rows[9:])])
    for start, stop in ((0, 20), (3, 15), (12, 20), (5, 5)):
        chosen = rows[start:stop]
        id_, label, score, values, offsets, characters, bounds = texts.arrays(whole.slice(start, stop - start))
        assert id_.tolist() == [r["id"] for r in chosen] and label.tolist() == [r["label"] for r in chosen]
        assert score.tolist() == [r["score"] for r in chosen]
        assert [values[a:b].tolist() for a, b in pairwise(offsets)] == [r["ids"] for r in chosen]
        found = [bytes(characters[a:b]).decode() for a, b in pairwise(bounds)]
        assert found == [r["text"] for r in chosen]
