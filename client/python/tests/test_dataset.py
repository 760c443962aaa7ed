"""A loader that is not told what to read says what there is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import penstock
from penstock import _dataset, errors
from penstock.loader import DataLoader

if TYPE_CHECKING:
    from tests.conftest import Fleet


@pytest.fixture(autouse=True)
def _binary(penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BINARY", str(penstock_binary))


def test_a_loader_that_is_not_told_what_to_read_says_what_there_is(shared_fleet: Fleet, kinds: Path) -> None:
    with pytest.raises(errors.UsageError) as raised:
        DataLoader(kinds, data=penstock.Data(storage=""))
    said = str(raised.value)
    assert f"{kinds} has 100 rows in 1 file:" in said
    lines = [re.split(r"\s{2,}", line.strip()) for line in said.splitlines()]
    for line in (
        ["label", "int32", "dense, label, sparse", "0, 1, 0"],
        ["int_0", "int64", "dense, label, sparse", "null, 1, 2"],
        ["price", "float64", "dense, label", "0, 0.25, 0.5"],
        ["country", "binary", "bytes, sparse if hashed", '"c0", "c1", "c2"'],
        ["ids", "list<int64>", "sparse", "[0, 1], [1, 2], [2, 3]"],
        ["of", "map<binary>float32", "of.KEY is a column for each key"],
    ):
        assert line in lines
    # What it proposes works as it is.
    proposed = said.partition("To read it, give for example\n")[2]
    options: dict[str, Any] = eval(f"dict({proposed})", {"penstock": penstock})
    assert options["features"] == (
        penstock.label("label") + penstock.dense("int_0", "price") + penstock.sparse("user_id", "country", "ids", "raw")
    )
    with DataLoader(kinds, **options, master=shared_fleet.master) as loader:
        (batch,) = loader
    assert np.asarray(batch.label).tolist() == [i % 2 for i in np.asarray(batch.sparse["user_id"].values)]
    assert Counter(np.asarray(batch.sparse["user_id"].values).tolist()) == Counter(range(100))


def test_a_dataset_that_cannot_be_seen_from_here(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match=r"^features= says what to read.* cannot be told here: .*nothing found"):
        DataLoader(tmp_path)
    with pytest.raises(errors.UsageError, match="The list of URIs is empty"):
        DataLoader([])


@pytest.mark.pure
def test_numbered_columns_are_proposed_as_one() -> None:
    names = ["y", *(f"int_{i}" for i in range(12)), "a_0", "a_1", "a_2", "a_x", "at*"]
    columns = [{"name": name, "type": "float32"} for name in names]
    assert _dataset.proposal(columns) == [
        "To read it, give for example",
        '    features=penstock.label("y") + penstock.dense("int_*", "a_0", "a_1", "a_2", "a_x"),',
        "    batch_size=1024,",
    ]
    assert _dataset.proposal([{"name": "s", "unsupported": "a list of lists"}]) == ["No column of it can be a feature."]
