"""A loader that is not told what to read says what there is."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import penstock
from penstock import _dataset, errors
from penstock._dataset import Column
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
        ["label", "int32", "dense, sparse, label, tensor", "0, 1, 0"],
        ["int_0", "int64", "dense, sparse, label, tensor", "null, 1, 2"],
        ["price", "float64", "dense, sparse, label, tensor", "0, 0.25, 0.5"],
        ["country", "binary", "bytes, image, tensor, sparse if hashed", '"c0", "c1", "c2"'],
        ["ids", "list<int64>", "sparse, tensor, padded", "[0, 1], [1, 2], [2, 3]"],
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


def test_schema_of_a_dataset(kinds: Path) -> None:
    schema = penstock.schema(kinds, rows=2)
    assert (schema.uri, schema.rows, schema.files, schema.listed) == (str(kinds), 100, 1, 1)
    ids = schema["ids"]
    assert (ids.type, ids.layouts, ids.shape) == ("list<int64>", ("sparse", "tensor", "padded"), (None,))
    assert ids.first == ([0, 1], [1, 2])
    price = schema["price"]
    assert (price.shape, price.nulls, price.min, price.max, price.first) == ((), 0, 0, 24.75, (0, 0.25))
    assert (schema["when"].meaning, schema["int_0"].nulls) == ("timestamp[us]", 15)
    assert [c.name for c in schema if "label" in c.layouts] == ["label", "int_0", "price", "user_id", "when"]
    assert schema.names[0] == schema[0].name == "label"
    with pytest.raises(KeyError, match="no column is called 'id'; there are: label, int_0"):
        schema["id"]
    assert f"{kinds} has 100 rows in 1 file:" in repr(schema)
    assert "<td>list&lt;int64&gt;</td>" in schema._repr_html_()
    assert repr(pickle.loads(pickle.dumps(schema))) == repr(schema)
    assert penstock.schema(kinds, rows=0)["ids"].first == ()


def test_no_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(errors.DataError, match="nothing found"):
        penstock.schema(tmp_path)
    with pytest.raises(errors.SpecError, match="files: found 0; give 1 or more"):
        penstock.schema(tmp_path, files=0)
    monkeypatch.setattr("penstock._binary.find", lambda: None)
    with pytest.raises(errors.UsageError, match="without the penstock binary"):
        penstock.schema(tmp_path)


@pytest.mark.pure
def test_columns_as_the_files_have_them() -> None:
    columns = [
        {"name": "e", "type": "list<list<float16>>", "layouts": ["tensor"], "shape": [2, 3]},
        {"name": "user_id", "type": "uint32", "layouts": ["dense", "sparse", "label", "tensor"]},
        {"name": "deep", "type": "list<list<int64>>", "layouts": ["tensor"]},
        {"name": "on", "type": "list<bool>", "layouts": ["tensor", "padded"]},
        {"name": "s", "unsupported": "a list of structs"},
    ]
    more = [{"name": f"f{i}", "type": "float32", "layouts": ["dense"]} for i in range(36)]
    schema = _dataset.Schema.of(
        {"uri": "d", "rows": 1, "files": 2, "listed": 3, "head": [{"e": [[1, 2, 3]] * 2}], "columns": columns + more}
    )
    assert [c.shape for c in schema[:5]] == [(2, 3), (), (None, None), (None,), ()]
    said = repr(schema)
    assert said.startswith("d has 1 row in the first 2 of 3 files:")
    assert re.search(r"\n  e +list<list<float16>> \[2, 3\]  tensor +\[\[1, 2, 3\], \[1, 2, 3\]\]\n", said)
    assert re.search(r"\n  s +none: a list of structs +null\n", said)
    assert said.endswith("... and 1 more (`penstock show d` shows all)")
    assert "<p>... and 1 more" in schema._repr_html_()
    proposed = 'penstock.dense("f*") + penstock.sparse("user_id") + penstock.tensor("e")'
    assert _dataset.proposal(schema)[1] == f"    features={proposed},"


def test_a_dataset_that_cannot_be_seen_from_here(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match=r"^features= says what to read.* cannot be told here: .*nothing found"):
        DataLoader(tmp_path)
    with pytest.raises(errors.UsageError, match="The list of URIs is empty"):
        DataLoader([])


@pytest.mark.pure
def test_numbered_columns_are_proposed_as_one() -> None:
    names = ["y", *(f"int_{i}" for i in range(12)), "a_0", "a_1", "a_2", "a_x", "at*"]
    columns = [Column(name, "float32") for name in names]
    assert _dataset.proposal(columns) == [
        "To read it, give for example",
        '    features=penstock.label("y") + penstock.dense("int_*", "a_0", "a_1", "a_2", "a_x"),',
        "    batch_size=1024,",
    ]
    refused = Column("s", "", unsupported="a list of structs")
    assert _dataset.proposal([refused]) == ["No column of it can be a feature."]
