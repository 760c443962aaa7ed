"""Python functions on the worker of this machine: their values beside the same functions by hand, each row once."""

from __future__ import annotations

import collections
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import DataLoader, _binary
from penstock._onbox import LocalFleet
from penstock.errors import DataError, Error, RestoreRefused, SpecError

if TYPE_CHECKING:
    from tests.conftest import Fleet

pytestmark = pytest.mark.fleet

FILES, PER_FILE, GROUP = 3, 21, 8  # rows of a file and of a row group
ROWS = FILES * PER_FILE


@pytest.fixture(autouse=True)
def binary(penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(_binary.VARIABLE, str(penstock_binary))
    return penstock_binary


@pytest.fixture
def warm(binary: Path) -> Iterator[None]:
    """Keeps the fleet that loaders share from one loader to the next."""
    fleet = LocalFleet()
    yield
    fleet.close()


def column(row: int) -> dict[str, Any]:
    """What a row has."""
    return {
        "id": row,
        "text": None if row % 7 == 3 else f"wörd {row} " * (row % 4),
        "price": None if row % 5 == 2 else row / 4,
        "small": row - 30,
        "flag": row % 3 == 0,
        "raw": bytes([row, 255, 0]) * (row % 3),
        "ids": None if row % 11 == 5 else list(range(row, row + row % 4)),
        "nested": [[row, row + 1, row + 2], [0, 1, 2]],
        "fixed": [row + i / 8 for i in range(6)],
        "keep": row % 3,
    }


SCHEMA = pa.schema({
    "id": pa.int64(), "text": pa.string(), "price": pa.float32(), "small": pa.int8(), "flag": pa.bool_(),
    "raw": pa.binary(), "ids": pa.list_(pa.int32()), "nested": pa.list_(pa.list_(pa.float32())),
    "fixed": pa.list_(pa.float32(), 6), "keep": pa.int32(),
})  # fmt: skip
TABLE = pa.Table.from_pylist([column(row) for row in range(ROWS)], SCHEMA)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for file in range(FILES):
        pq.write_table(TABLE[file * PER_FILE : (file + 1) * PER_FILE], folder / f"{file}.parquet", row_group_size=GROUP)
    return folder


def load(rows: Path, *transforms: penstock.Transform, features: penstock.Features, **options: Any) -> DataLoader:
    given: dict[str, Any] = {"batch_size": 5, "epochs": 1, "last_batch": "uneven", **options}
    return DataLoader(
        rows, features=penstock.label("id") + features, transforms=list(transforms), format="numpy", **given
    )


def read(loader: Any) -> dict[int, dict[str, Any]]:
    """The rows of an epoch by their ids, each of which comes once."""
    found: dict[int, dict[str, Any]] = {}
    for batch in loader:
        for row in batch.to_arrow()[: batch.valid].to_pylist():
            assert row["id"] not in found
            found[row["id"]] = row
    return found


# Functions of each style.


@penstock.op(out={"words": penstock.int32, "upper": penstock.string})
def words(text: pa.Array) -> tuple[pa.Array, pa.Array]:
    return pc.list_value_length(pc.split_pattern(pc.fill_null(text, ""), " ")), pc.utf8_upper(text)


@penstock.op(out={"scaled": penstock.float32, "sums": penstock.float32.tensor(2)}, by="numpy")
def scale(price: Any, small: Any) -> dict[str, Any]:
    scaled = np.nan_to_num(price) * 2 + small
    return {"sums": np.stack([scaled, -scaled], 1), "scaled": scaled}


@penstock.op(out={"tokens": penstock.int32.list()}, by="rows")
def tokenize(text: str | None, ids: list[int] | None) -> list[int] | None:
    return None if ids is None else [len(text or ""), *ids]


ALL = penstock.tensor("words", "scaled", "sums") + penstock.bytes_("upper") + penstock.sparse("tokens")


def wanted() -> dict[int, dict[str, Any]]:
    """What the three functions make of each row, by hand."""
    whole = {name: TABLE[name].combine_chunks() for name in TABLE.column_names}
    counts, upper = words.function(whole["text"])
    price = whole["price"].to_numpy(zero_copy_only=False)
    scaled = scale.function(price, whole["small"].to_numpy())
    made = {}
    for row in range(ROWS):
        made[row] = {
            "id": row, "words": counts[row].as_py(), "upper": (upper[row].as_py() or "").encode(),
            "scaled": float(np.float32(scaled["scaled"][row])), "sums": scaled["sums"][row].astype(np.float32).tolist(),
            "tokens": tokenize.function(whole["text"][row].as_py(), whole["ids"][row].as_py()) or [],
        }  # fmt: skip
    return made


CALLS = words("text"), scale("price", "small"), tokenize("text", "ids")


@pytest.mark.every_python
@pytest.mark.parametrize(
    "options",
    [
        {}, {"shuffle": True, "seed": 7}, {"batch_size": 1}, {"batch_size": 64}, {"workers": 2},
        {"order": "deterministic", "shuffle": True}, {"last_batch": "pad", "batch_size": 16},
    ],
    ids=str,
)  # fmt: skip
def test_values_are_those_of_the_same_functions_by_hand(rows: Path, options: dict[str, Any]) -> None:
    with load(rows, *CALLS, features=ALL, **options) as loader:
        assert read(loader) == wanted()


def test_filters_and_samples_choose_what_functions_get(rows: Path) -> None:
    with load(rows, *CALLS, features=ALL, filter="keep == 1", shuffle=True) as loader:
        assert read(loader) == {row: made for row, made in wanted().items() if row % 3 == 1}
    with load(rows, penstock.sample(0.5), *CALLS, features=ALL) as loader:
        found = read(loader)
        assert 0 < len(found) < ROWS
        assert found == {row: wanted()[row] for row in found}


def test_dropping_drops_what_is_left(rows: Path) -> None:
    with load(rows, *CALLS, features=ALL, last_batch="drop", batch_size=16) as loader:
        found = read(loader)
    assert len(found) == ROWS // 16 * 16
    assert found == {row: wanted()[row] for row in found}


SAME = {
    "text": penstock.string, "price": penstock.float32, "small": penstock.int8, "flag": penstock.bool_,
    "raw": penstock.binary, "ids": penstock.int32.list(), "nested": penstock.float32.list().list(),
    "fixed": penstock.float32.tensor(2, 3), "keep": penstock.int32,
}  # fmt: skip


@pytest.mark.parametrize("by", ["arrow", "numpy", "rows"])
def test_every_type_goes_to_a_function_and_back(rows: Path, by: str) -> None:
    """A function that returns its inputs: batches are those without it."""
    features = (
        penstock.bytes_("text", "raw") + penstock.dense("price") + penstock.tensor("small", "flag", "keep")
        + penstock.sparse("ids") + penstock.tensor("nested", "fixed", shape=(2, 3))
    )  # fmt: skip
    same = penstock.op(lambda *inputs: inputs, out=SAME, by=by)
    with load(rows, features=features) as plain, load(rows, same(*SAME), features=features) as through:
        wanted, found = read(plain), read(through)
    assert set(found) == set(wanted)
    for row, made in found.items():
        assert repr(made) == repr(wanted[row])  # NaN differs from itself


@pytest.mark.parametrize(
    "kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64", "bool_"]
)
def test_every_type_of_results(rows: Path, kind: str) -> None:
    of = getattr(penstock, kind)
    dtype = np.dtype(kind.rstrip("_"))

    def make(ids: Any) -> Any:
        values = (ids[:, None] * 3 + np.arange(6)) % 120
        lists = [row[: i % 7].astype(dtype) for i, row in zip(ids.tolist(), values, strict=True)]
        return values[:, 0].astype(dtype), values.reshape(-1, 2, 3).astype(dtype), lists

    op = penstock.op(make, out={"one": of, "many": of.tensor(2, 3), "some": of.list()}, by="numpy")
    features = penstock.tensor("one", "many") + penstock.padded("some", length=6, value=0, side="right")
    one, many, some = make(np.arange(ROWS))
    with load(rows, op("id"), features=features) as loader:
        for batch in loader:
            at = batch.label
            assert batch.tensors["one"].dtype == dtype
            np.testing.assert_array_equal(batch.tensors["one"], one[at])
            np.testing.assert_array_equal(batch.tensors["many"], many[at])
            for i, row in enumerate(at.tolist()):
                np.testing.assert_array_equal(batch.padded["some"].values[i][batch.padded["some"].mask[i]], some[row])


def test_a_chain_of_functions_and_built_in_ops(rows: Path) -> None:
    twice = penstock.op(lambda x: pc.multiply(x, 2), out=penstock.float32, name="twice")
    joined = penstock.op(lambda a, b: pc.binary_join_element_wise(a, b, "-"), out={"joined": "string"}, name="joined")
    chain = [
        penstock.fill_null("text", "none"), penstock.fill_null("price", 1.5), twice("price"),
        twice("price", out="four"), penstock.log1p("four", out="log"), penstock.cast("id", "float32", out="number"),
        twice("number"), joined("text", "text_2"), penstock.sigrid_hash("joined", max=1000, out="hash"),
    ]  # fmt: skip
    chain.insert(0, penstock.op(lambda t: t, out={"text_2": "string"}, name="copy")("text"))
    chain.insert(2, penstock.fill_null("text_2", "?"))
    features = penstock.bytes_("joined") + penstock.label("price", "four", "log", "number", "hash")
    with load(rows, *chain, features=features, shuffle=True, filter="keep != 0") as loader:
        found = read(loader)
    assert set(found) == {row for row in range(ROWS) if row % 3}
    for row, made in found.items():
        text, price = column(row)["text"], column(row)["price"]
        price = 1.5 if price is None else price
        assert made["joined"].decode() == ("none-?" if text is None else f"{text}-{text}")
        assert (made["price"], made["four"], made["number"]) == (price * 2, price * 4, row * 2)
        assert made["log"] == pytest.approx(np.log1p(price * 4), rel=1e-5)
        assert 0 <= made["hash"] < 1000
    assert len({made["hash"] for made in found.values()}) > 20


class Recorder:
    """Writes down the rows of each call."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.write({"made": os.getpid()})

    def write(self, said: Any) -> None:
        with open(self.file, "a") as out:  # noqa: PTH123
            out.write(json.dumps(said) + "\n")

    def __call__(self, ids: pa.Array) -> pa.Array:
        self.write({"ids": ids.to_pylist()})
        return ids


def test_each_window_comes_once_with_exactly_the_rows_that_passed(rows: Path, tmp_path: Path) -> None:
    file = tmp_path / "calls"
    record = penstock.op(Recorder, out={"seen": penstock.int64}, args=(str(file),))
    untried = penstock.Data(try_functions=False)
    with load(
        rows, record("id"), features=penstock.tensor("seen"), filter="keep == 1", shuffle=True, data=untried
    ) as loader:
        found = read(loader)
    said = [json.loads(line) for line in file.read_text().splitlines()]
    calls = [each["ids"] for each in said if each.get("ids")]
    passed = [row for row in range(ROWS) if row % 3 == 1]
    assert sorted(found) == passed
    assert sorted(row for call in calls for row in call) == passed
    assert all(call == sorted(call) and len({row // PER_FILE for row in call}) == 1 for call in calls)
    made = collections.Counter(each["made"] for each in said if "made" in each)
    assert set(made.values()) == {1}  # in each process once


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_resuming_after_every_row(rows: Path, warm: None) -> None:
    options: dict[str, Any] = {"batch_size": 1, "order": "deterministic", "shuffle": True, "seed": 3}
    states, ids = [], []
    with load(rows, *CALLS, features=ALL, **options) as loader:
        states.append(loader.state_dict())
        for batch in loader:
            ids.append(int(batch.label[0]))
            states.append(loader.state_dict())
    assert sorted(ids) == list(range(ROWS))
    expected = wanted()
    for taken, state in enumerate(states[:-1]):
        with load(rows, *CALLS, features=ALL, **options) as loader:
            loader.load_state_dict(state)
            rest = read(loader)
        assert sorted([*ids[:taken], *rest]) == list(range(ROWS))
        assert rest == {row: expected[row] for row in rest}
        assert list(rest) == ids[taken:]


def fail(text: str | None) -> int:
    return parse(text or "0")


def parse(text: str) -> int:
    if text.startswith("wörd 18"):
        raise ValueError(f"bad text {text!r}")
    return len(text)


def test_an_exception_comes_to_the_loop_with_its_place(rows: Path) -> None:
    op = penstock.op(fail, out={"length": penstock.int32}, by="rows")
    with load(rows, op("text"), features=penstock.tensor("length")) as loader, pytest.raises(DataError) as raised:
        read(loader)
    said = str(raised.value)
    assert "transforms[0] (python fail): row 18 fails: ValueError: bad text 'wörd 18 wörd 18 '" in said
    assert "0.parquet row group 2, rows 16 to 20" in said
    assert "in parse" in said and "in fail" in said and Path(__file__).name in said
    assert "_op_call.py" not in said


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (lambda x: x[1:], "values for"),
        (lambda x: ["a"] * len(x), "found string, wanted int32"),
        (lambda x: [1 << 40] * len(x), "wanted int32"),
        (lambda x: None, "found None"),
    ],
)
def test_results_that_are_not_as_declared_are_told(rows: Path, result: Any, says: str) -> None:
    op = penstock.op(result, out={"made": penstock.int32}, name="wrong")
    with load(rows, op("id"), features=penstock.tensor("made")) as loader, pytest.raises(DataError) as raised:
        read(loader)
    assert "transforms[0] (python wrong)" in str(raised.value)
    assert says in str(raised.value)


def test_mistakes_of_the_spec_are_told_as_those_of_ops(rows: Path) -> None:
    unknown = load(rows, words("texts"), features=penstock.tensor("words"))
    with unknown as loader, pytest.raises(SpecError, match=r"transforms\[0\].*texts"):
        next(iter(loader))
    scalar = load(rows, words("text"), features=penstock.padded("words", length=2))
    with scalar as loader, pytest.raises(SpecError, match="words"):
        next(iter(loader))


def test_a_module_of_the_users_that_workers_do_not_have(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lookup_of_mine.py").write_text("FACTOR = 3\n\ndef price(row):\n    return row * FACTOR\n")
    with monkeypatch.context() as paths:
        paths.syspath_prepend(tmp_path)
        import lookup_of_mine  # type: ignore[import-not-found]
    op = penstock.op(lookup_of_mine.price, out={"made": penstock.int64}, by="rows")
    (tmp_path / "lookup_of_mine.py").unlink()
    with load(rows, op("id"), features=penstock.tensor("made")) as loader:
        assert {row: made["made"] for row, made in read(loader).items()} == {row: row * 3 for row in range(ROWS)}


def test_a_function_sees_nothing_of_the_fleet(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    def environment(ids: pa.Array) -> list[str]:
        return [json.dumps(dict(os.environ))] * len(ids)

    op = penstock.op(environment, out={"said": penstock.string})
    with load(rows, op("id"), features=penstock.bytes_("said")) as loader:
        said = json.loads(next(iter(loader)).bytes["said"][0])
    assert said["PYTHONHASHSEED"] == "0"
    assert "secret" not in said.values()
    assert not [name for name in said if name.startswith(("PENSTOCK", "AWS"))]


def test_what_a_loader_gives_is_known_before_it_is_opened(rows: Path) -> None:
    with load(rows, *CALLS, features=ALL) as loader:
        assert loader.schema["sums"].shape == (2,)
        assert loader.schema["words"].dtype == "int32"
        peeked = {row["id"]: row for row in loader.peek(4).table.to_pylist()}
    assert peeked == {row: wanted()[row] for row in range(4)}


def test_a_state_of_other_code_is_refused_unless_that_is_accepted(rows: Path, warm: None) -> None:
    def one(x: pa.Array) -> pa.Array:
        return pc.add(x, 1)

    def two(x: pa.Array) -> pa.Array:
        return pc.add(x, 2)

    def plus(function: Any, **options: Any) -> DataLoader:
        op = penstock.op(function, out={"made": penstock.int64}, name="plus")
        return load(rows, op("id"), features=penstock.tensor("made"), **options)

    with plus(one) as loader:
        taken = [int(row) for row in next(iter(loader)).label]
        state = loader.state_dict()
    with plus(one) as loader:
        loader.load_state_dict(state)
        assert sorted([*taken, *read(loader)]) == list(range(ROWS))
    with plus(two) as loader:
        loader.load_state_dict(state)
        with pytest.raises(
            RestoreRefused, match=r"function plus differs.*data=penstock.Data\(accept_code_change=True\)"
        ):
            read(loader)
    with plus(two, data=penstock.Data(accept_code_change=True)) as loader:
        loader.load_state_dict(state)
        rest = read(loader)
    assert sorted([*taken, *rest]) == list(range(ROWS))
    assert all(made["made"] == row + 2 for row, made in rest.items())


def test_several_epochs_and_a_loader_after_another(rows: Path, warm: None) -> None:
    for _ in range(2):
        with load(rows, *CALLS, features=ALL, epochs=2, shuffle=True) as loader:
            assert read(loader) == wanted()
            assert read(loader) == wanted()


def test_workers_of_a_fleet_get_the_code_from_the_loader(fleet: Fleet, rows: Path) -> None:
    """Also one that comes later, in place of one that was killed."""
    path = [f"--python-path=default={folder}" for folder in sys.path if Path(folder).is_dir()]
    flags = ["--code=by-value", f"--python=default={sys.executable}", *path]
    fleet.start(workers=2, master_flags=["--code=by-value"], worker_flags=flags)
    found = {}
    with load(rows, *CALLS, features=ALL, batch_size=1, master=fleet.master, shuffle=True) as loader:
        for taken, batch in enumerate(loader):
            [row] = batch.to_arrow().to_pylist()
            assert row["id"] not in found
            found[row["id"]] = row
            if taken == 5:
                fleet.kill()
                fleet.add_worker()
    assert found == wanted()


def test_only_workers_whose_packages_have_the_same_versions_take_part(
    fleet: Fleet, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of three has another version, and makes no row; with it alone the error names the package."""
    folders = {}
    for version in ("1.0", "2.0"):
        folders[version] = tmp_path / version
        information = folders[version] / f"made_up_package-{version}.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: made-up-package\nVersion: {version}+cpu\n")
        (information / "top_level.txt").write_text("made_up_package\n")
        (folders[version] / "made_up_package.py").write_text(f"def version():\n    return {version}\n")
    monkeypatch.syspath_prepend(folders["1.0"])
    import made_up_package  # type: ignore[import-not-found]

    path = [f"--python-path=default={folder}" for folder in sys.path if Path(folder).is_dir()]
    fleet.start(workers=0, master_flags=["--code=by-value"])
    flags = ["--code=by-value", f"--python=default={sys.executable}"]
    fleet.add_worker(*flags, f"--python-path=default={folders['2.0']}", *path)
    for _ in range(2):
        fleet.add_worker(*flags, *path)

    op = penstock.op(lambda x: [made_up_package.version()] * len(x), out={"made": penstock.float64}, name="versions")
    features = penstock.tensor("made")
    with load(rows, op("id"), features=features, master=fleet.master, shuffle=True) as loader:
        found = read(loader)
    assert sorted(found) == list(range(ROWS))
    assert {made["made"] for made in found.values()} == {1.0}
    for name in [*fleet.workers][1:]:
        fleet.kill(name)
    says = "made-up-package is 2.0 here, and 1.0 where the session was opened"
    with load(rows, op("id"), features=features, master=fleet.master) as loader, pytest.raises(Error, match=says):
        read(loader)


def test_a_fleet_that_runs_no_functions_says_so(shared_fleet: Fleet, rows: Path) -> None:
    loader = load(rows, words("text"), features=penstock.tensor("words"), master=shared_fleet.master)
    with loader, pytest.raises(Error, match=r"may not have Python functions of their trainers.*--code by-value"):
        next(iter(loader))
