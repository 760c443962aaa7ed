"""What a loader says before it reads: the schema of its batches, first rows, and where it stands."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import penstock
from penstock import errors
from penstock._look import Rows
from penstock.loader import DataLoader
from tests import test_batch

if TYPE_CHECKING:
    from tests.conftest import Dataset, Fleet


FEATURES = (
    penstock.label("label")
    + penstock.dense("int_0", "price")
    + penstock.sparse("country", "ids")
    + penstock.bytes_("raw")
)
HASHED = penstock.sigrid_hash("country", max=1000)


@pytest.fixture(autouse=True)
def _binary(penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_BINARY", str(penstock_binary))


def sessions(fleet: Fleet) -> set[str]:
    done = subprocess.run(
        [fleet.binary, "session", "list", "--output=json", f"--master={fleet.master}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(re.findall(r'"id": ?"([^"]*)"', done.stdout))


@pytest.mark.parametrize("local", [False, True])
def test_schema_and_first_rows(shared_fleet: Fleet, kinds: Path, local: bool) -> None:
    loader = DataLoader(
        kinds, features=FEATURES, transforms=HASHED, batch_size=32, shuffle=True,
        data=penstock.Data(provenance=True), master=None if local else shared_fleet.master,
    )  # fmt: skip
    before = sessions(shared_fleet)
    schema = loader.schema
    assert [tuple(column)[:4] for column in schema] == [
        ("label", "label", "int32", ()),
        ("int_0", "dense", "float32", ()),
        ("price", "dense", "float32", ()),
        ("country", "sparse", "int64", (None,)),
        ("ids", "sparse", "int64", (None,)),
        ("raw", "bytes", "uint8", (None,)),
        ("_file", "provenance", "int32", ()),
        ("_row", "provenance", "int64", ()),
    ]
    assert schema["ids"].layout == "sparse"
    with pytest.raises(KeyError, match="no feature is called 'id'; there are: label, int_0, price"):
        schema["id"]
    assert re.search(r"\nids +sparse +int64 \[rows, any\]\n", repr(schema))

    rows = loader.peek()
    assert len(rows) == 5
    assert rows.schema == schema
    found = rows.table.to_pydict()
    assert found["label"] == [0, 1, 0, 1, 0]
    np.testing.assert_array_equal(found["int_0"], [np.nan, 1, 2, 3, 4])
    assert found["price"] == [0, 0.25, 0.5, 0.75, 1]
    assert found["ids"] == [[i, i + 1] for i in range(5)]
    assert found["raw"] == [b"\x00\x01"] * 5
    assert found["_row"] == [0, 1, 2, 3, 4]
    assert all(len(ids) == 1 and 0 <= ids[0] < 1000 for ids in found["country"])
    assert re.search(r"^label  int_0  price .*\n0      nan    0 ", repr(rows))
    assert "<th>price</th>" in rows._repr_html_()

    # Nothing is left of it, nor does any row count as read.
    assert sessions(shared_fleet) == before
    assert "not open" in repr(loader)
    with loader:
        batches = iter(loader)
        next(batches)
        assert loader.schema == schema
        assert len(loader.peek(3)) == 3
        assert sum(len(batch) for batch in batches) == 100 - 32
    for use in (loader.peek, lambda: loader.schema):
        with pytest.raises(errors.Closed):
            use()


def test_tensors_as_people_read_them() -> None:
    of = test_batch.record()
    rows = Rows(of.schema, [of.slice(0, 2), of.slice(2)])
    assert [tuple(rows.schema[name])[1:4] for name in ("half", "brain", "flag", "recent", "seen")] == [
        ("tensor", "float16", (2,)),
        ("tensor", "bfloat16", (2, 2)),
        ("tensor", "bool", ()),
        ("padded", "int64", (4,)),
        ("padded", "bool", (2,)),
    ]
    shown = dict(zip(*(rows._cells()[i] for i in (0, 4)), strict=True))
    assert [shown[name] for name in ("half", "brain", "flag", "recent", "seen")] == [
        "[3, 3.5]", "[[3, -3], [1.5, 1]]", "True", "[-1, 3, 3, 3]", "[False, False]",
    ]  # fmt: skip
    assert "<td>bfloat16 [rows, 2, 2]</td>" in rows.schema._repr_html_()


def test_first_rows_of_a_filter_and_of_a_spec_file(shared_fleet: Fleet, kinds: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "features": FEATURES,
        "transforms": HASHED,
        "batch_size": 8,
        "master": shared_fleet.master,
    }
    some = DataLoader(kinds, filter="price >= 24", **options).peek(10)
    assert sorted(some.table["price"].to_pylist()) == [24, 24.25, 24.5, 24.75]
    none = DataLoader(kinds, filter="price > 100", **options).peek()
    assert (len(none), repr(none)) == (0, "no rows of label, int_0, price, country, ids, raw")

    spec = tmp_path / "spec.yaml"
    spec.write_text(f"dataset: {{uri: {kinds}/}}\nfeatures: [{{dense: price}}]\nglobal_batch_size: 64\nshuffle: true\n")
    loader = DataLoader(spec=spec, master=shared_fleet.master)
    assert loader.schema.names == ("price",)
    assert loader.peek(2).table.to_pydict() == {"price": [0, 0.25]}
    assert repr(loader) == f"penstock.DataLoader(spec={str(spec)!r}; not open)"
    with pytest.raises(errors.SpecError, match="no feature nothing"):
        DataLoader(kinds, features=penstock.dense("nothing"), batch_size=8, master=shared_fleet.master).peek()
    for wrong in (0, -1, True, 2.5, "3"):
        with pytest.raises(errors.UsageError, match="give a number of rows from 1 on"):
            loader.peek(wrong)  # type: ignore[arg-type]


def test_repr_says_what_is_read_and_where_it_stands(shared_fleet: Fleet, dataset: Dataset) -> None:
    session = f"look-{uuid.uuid4().hex}"
    loader = DataLoader(
        dataset.uri, features=penstock.label("label"), batch_size=6000, last_batch="drop", epochs=2, session=session,
        master=shared_fleet.master,
    )  # fmt: skip
    what = f"penstock.DataLoader({dataset.uri!r}, batch_size=6000, last_batch='drop'; "
    assert repr(loader) == f"{what}not open)"
    with loader:
        read = f"{what}session {session!r}, rank 0 of 1: "
        batches = iter(loader)
        next(batches)
        assert repr(loader) == f"{read}in epoch 0, 1 batch read)"
        assert len(list(batches)) == 2
        assert repr(loader) == f"{read}in epoch 1, 3 batches read)"
        list(loader)
        assert repr(loader) == f"{read}all epochs read, 6 batches read)"
    assert repr(loader) == f"{what}closed)"
    step = penstock.Data(global_batch_size=4)
    several = DataLoader([f"f{i}" for i in range(5)], features=penstock.label("label"), data=step)
    assert repr(several).startswith("penstock.DataLoader(['f0', 'f1', 'f2'] and 2 more, global_batch_size=4")
    inline = DataLoader(spec=json.dumps({"dataset": {"uri": "d"}}))
    assert repr(inline) == "penstock.DataLoader(spec=...; not open)"
