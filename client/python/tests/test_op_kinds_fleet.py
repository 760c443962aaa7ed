"""Functions that choose rows and make several of one, on this machine's worker: rows and values as by hand."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import DataLoader
from penstock.errors import DataError

pytestmark = [pytest.mark.fleet, pytest.mark.usefixtures("fleet_of_this_machine")]

FILES, PER_FILE, GROUP = 3, 21, 8  # rows of a file and of a row group
ROWS = FILES * PER_FILE


def text_of(row: int) -> str | None:
    return None if row % 7 == 3 else " ".join(f"w{row}.{i}" for i in range(row % 5))


TABLE = pa.table({
    "id": pa.array(range(ROWS), pa.int64()), "text": [text_of(row) for row in range(ROWS)],
    "price": pa.array([None if row % 5 == 2 else row / 4 for row in range(ROWS)], pa.float32()),
})  # fmt: skip


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for file in range(FILES):
        pq.write_table(TABLE[file * PER_FILE : (file + 1) * PER_FILE], folder / f"{file}.parquet", row_group_size=GROUP)
    return folder


FEATURES = penstock.label("id") + penstock.bytes_("word") + penstock.tensor("place", "length")

Row = tuple[int, int, str, int, int]  # id, part, word, its place and its length


def load(
    rows: Path, *transforms: penstock.Transform, features: penstock.Features = FEATURES, **more: Any
) -> DataLoader:
    given: dict[str, Any] = {"batch_size": 5, "epochs": 1, "last_batch": "uneven"}
    given |= {"data": penstock.Data(provenance=True), **more}
    return DataLoader(rows, features=features, transforms=list(transforms), format="numpy", **given)


def read(batches: Any) -> list[Row]:
    """The rows of batches, in their order."""
    found: list[Row] = []
    for batch in batches:
        n = batch.valid
        columns = [batch.label[:n], batch.parts[:n], batch.tensors["place"][:n], batch.tensors["length"][:n]]
        ids, parts, places, lengths = (column.tolist() for column in columns)
        words = [batch.bytes["word"][i].decode() for i in range(n)]
        assert (batch.rows[:n] == np.array(ids) % PER_FILE).all()
        found += zip(ids, parts, words, places, lengths, strict=True)
    return found


# What is left of the words of a text: a map, a flat_map, a map and a filter, by each style.


def by_rows() -> list[penstock.Transform]:
    @penstock.op(out={"filled": penstock.string}, by="rows")
    def fill(text: str | None) -> str:
        return text or ""

    @penstock.op(out={"word": penstock.string, "place": penstock.int32}, by="rows", kind="flat_map", most=8)
    def split(filled: str) -> Iterator[dict[str, Any]]:
        for place, word in enumerate(filled.split()):
            yield {"place": place, "word": word}

    @penstock.op(out={"length": penstock.int64}, by="rows")
    def measure(word: str, row: int) -> int:
        return len(word) * 1000 + row

    @penstock.op(by="rows", kind="filter")
    def keep(place: int, price: float | None) -> bool | None:
        return None if price is None else place != 1

    return [fill("text"), split("filled"), measure("word", "id"), keep("place", "price")]


def by_arrow() -> list[penstock.Transform]:
    @penstock.op(out={"filled": penstock.string})
    def fill(text: pa.Array) -> pa.Array:
        return pc.fill_null(text, "")

    @penstock.op(out={"word": penstock.string, "place": penstock.int32}, kind="flat_map")
    def split(filled: pa.Array) -> tuple[pa.Array, pa.Array, list[int]]:
        words = pc.split_pattern(pc.if_else(pc.equal(filled, ""), None, filled), " ")
        counts = pc.fill_null(pc.list_value_length(words), 0).to_pylist()
        return pc.list_parent_indices(words), words.flatten(), [place for n in counts for place in range(n)]

    @penstock.op(out={"length": penstock.int64})
    def measure(word: pa.Array, row: pa.Array) -> pa.Array:
        return pc.add(pc.multiply(pc.utf8_length(word), 1000), row)

    @penstock.op(kind="filter")
    def keep(place: pa.Array, price: pa.Array) -> pa.Array:
        return pc.and_(pc.not_equal(place, 1), pc.greater_equal(price, 0))  # null where there is no price

    return [fill("text"), split("filled"), measure("word", "id"), keep("place", "price")]


def by_numpy() -> list[penstock.Transform]:
    @penstock.op(out={"filled": penstock.string}, by="numpy")
    def fill(text: Any) -> list[str]:
        return [each or "" for each in text]

    @penstock.op(out={"word": penstock.string, "place": penstock.int32}, by="numpy", kind="flat_map", most=4)
    def split(filled: Any) -> dict[str, Any]:
        words = [text.split() for text in filled]
        parents = np.repeat(np.arange(len(words)), [len(each) for each in words])
        places = [place for each in words for place in range(len(each))]
        return {"word": [word for each in words for word in each], "place": places, "parents": parents}

    @penstock.op(out={"length": penstock.int64}, by="numpy")
    def measure(word: Any, row: Any) -> Any:
        return np.array([len(each) for each in word]) * 1000 + row

    @penstock.op(by="numpy", kind="filter")
    def keep(place: Any, price: Any) -> Any:
        return (place != 1) & ~np.isnan(price)

    return [fill("text"), split("filled"), measure("word", "id"), keep("place", "price")]


STYLES = {"rows": by_rows, "arrow": by_arrow, "numpy": by_numpy}


def wanted() -> list[Row]:
    """The same by hand, in the order of the files. Parts count what is left of a row."""
    made: list[Row] = []
    for row in TABLE.to_pylist():
        if row["price"] is None:
            continue
        left = [(place, word) for place, word in enumerate((row["text"] or "").split()) if place != 1]
        made += [(row["id"], part, w, place, len(w) * 1000 + row["id"]) for part, (place, w) in enumerate(left)]
    return made


@pytest.mark.every_python
@pytest.mark.parametrize("style", STYLES)
def test_rows_are_those_of_the_same_functions_by_hand(rows: Path, style: str) -> None:
    with load(rows, *STYLES[style]()) as loader:
        assert sorted(read(loader)) == wanted()


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "seed": 7}, {"batch_size": 1}, {"batch_size": 64}, {"workers": 2},
        {"last_batch": "pad", "batch_size": 16}, {"last_batch": "pad", "batch_size": 16, "shuffle": True},
        {"order": "deterministic"}, {"order": "deterministic", "shuffle": True},
    ],
    ids=str,
)  # fmt: skip
def test_rows_are_the_same_in_every_order_and_cut(rows: Path, options: dict[str, Any]) -> None:
    with load(rows, *by_arrow(), **options) as loader:
        found = read(loader)
    assert sorted(found) == wanted()
    if options.get("shuffle"):
        assert found != wanted()
        ids = [row[0] for row in found]
        assert any(ids[i] != ids[i + 1] and ids[i] in ids[i + 2 :] for i in range(len(ids) - 2))  # words, not texts
    elif options.get("order"):
        assert found == wanted()


def test_dropping_drops_what_is_left(rows: Path) -> None:
    with load(rows, *by_arrow(), last_batch="drop", batch_size=16) as loader:
        found = read(loader)
    assert len(found) == len(wanted()) // 16 * 16
    assert set(found) <= set(wanted()) and len(set(found)) == len(found)


def test_the_filter_of_the_files_rows_comes_first(rows: Path) -> None:
    with load(rows, *by_arrow(), filter="id % 3 == 1", shuffle=True) as loader:
        assert sorted(read(loader)) == [row for row in wanted() if row[0] % 3 == 1]


def test_several_epochs(rows: Path) -> None:
    with load(rows, *by_rows(), epochs=2, shuffle=True) as loader:
        first, second = read(loader), read(loader)
    assert sorted(first) == sorted(second) == wanted()
    assert first != second


class Halves:
    """Keeps every other row, and writes down which it was called with."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(self, ids: pa.Array) -> list[bool]:
        with open(self.file, "a") as out:  # noqa: PTH123
            out.write("".join(f"{row}\n" for row in ids.to_pylist()))
        return [row % 2 == 0 for row in ids.to_pylist()]


@pytest.mark.parametrize("options", [{"order": "deterministic"}, {"last_batch": "drop"}], ids=str)
def test_later_epochs_use_the_counts_of_the_first(rows: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    """A function is called with each row once in each epoch, and once more in the first one."""
    file = tmp_path / "calls"
    halves = penstock.op(Halves, kind="filter", args=(str(file),))
    given = {"batch_size": 1, "shuffle": True, "epochs": 3, "features": penstock.label("id"), **options}
    untried = penstock.Data(try_functions=False)  # which would call it, too
    with load(rows, halves("id"), data=untried, **given) as loader:
        epochs = [[int(batch.label[0]) for batch in loader] for _ in range(3)]
    assert all(sorted(ids) == list(range(0, ROWS, 2)) for ids in epochs)
    assert len({tuple(ids) for ids in epochs}) == 3
    calls = collections.Counter(int(row) for row in file.read_text().split())
    assert calls == dict.fromkeys(range(ROWS), 3 + 1)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("order", ["fast", "deterministic"])
def test_resuming_within_windows(rows: Path, order: str) -> None:
    """After every third row, which are all kinds of places in windows."""
    options: dict[str, Any] = {"batch_size": 1, "order": order, "shuffle": True, "seed": 3}
    states, found = [], []
    with load(rows, *by_arrow(), **options) as loader:
        states.append(loader.state_dict())
        for batch in loader:
            found += read([batch])
            states.append(loader.state_dict())
    assert sorted(found) == wanted()
    for taken in range(order == "fast", len(states) - 1, 3):
        with load(rows, *by_arrow(), **options) as loader:
            loader.load_state_dict(states[taken])
            rest = read(loader)
        assert sorted([*found[:taken], *rest]) == wanted()
        if order == "deterministic":
            assert rest == found[taken:]


def test_filters_alone(rows: Path) -> None:
    """One keeps all rows, one keeps some, and behind it a built-in op sees what is left."""
    every = penstock.op(lambda x: [True] * len(x), kind="filter", name="every")
    even = penstock.op(lambda x: x % 2 == 0, by="numpy", kind="filter", name="even")
    features = penstock.label("id") + penstock.label("log")
    chain = [every("text"), even("id"), penstock.cast("id", "float32", out="log"), penstock.log1p("log")]
    with load(rows, *chain, features=features) as loader:
        found = [row for batch in loader for row in batch.to_arrow()[: batch.valid].to_pylist()]
    assert sorted(row["id"] for row in found) == list(range(0, ROWS, 2))
    assert all(row["log"] == pytest.approx(np.log1p(row["id"]), rel=1e-5) for row in found)


@pytest.mark.parametrize("order", ["fast", "deterministic"])
def test_nothing_is_left(rows: Path, order: str) -> None:
    features = penstock.label("id") + penstock.tensor("made")
    nothing = penstock.op(lambda x: [], out={"made": penstock.int64}, by="rows", kind="flat_map", name="nothing")
    after = penstock.op(lambda x: x, out={"made": penstock.int64}, name="after")
    with load(rows, nothing("id"), after("made"), features=features, order=order) as loader:
        assert list(loader) == []
    none = penstock.op(lambda x: [False] * len(x), kind="filter", name="none")
    with load(rows, none("id"), features=penstock.label("id"), order=order) as loader:
        assert list(loader) == []


def test_too_many_rows_are_an_error_with_op_and_row(rows: Path) -> None:
    many = penstock.op(
        lambda x: range(3 if x != 18 else 40),
        out={"made": penstock.int64},
        by="rows",
        kind="flat_map",
        most=3,
        name="many",
    )
    features = penstock.label("id") + penstock.tensor("made")
    with load(rows, many("id"), features=features) as loader, pytest.raises(DataError) as raised:
        list(loader)
    said = str(raised.value)
    assert "transforms[0] (python many): row 18 fails: it became 1" in said
    assert "at most 3 for each may become of them: make fewer, or allow more by most=" in said
    assert "0.parquet row group 2, rows 16 to 20" in said


def test_an_exception_behind_a_filter_names_the_row_of_the_file(rows: Path) -> None:
    def fail(x: int) -> int:
        return 1 // (x - 13)

    even = penstock.op(lambda x: x % 2 == 1, by="numpy", kind="filter", name="odd")
    op = penstock.op(fail, out={"made": penstock.int64}, by="rows")
    features = penstock.label("id") + penstock.tensor("made")
    with load(rows, even("id"), op("id"), features=features) as loader, pytest.raises(DataError) as raised:
        list(loader)
    assert "transforms[1] (python fail): row 13 fails: ZeroDivisionError" in str(raised.value)


def test_bad_rows_are_left_out_one_by_one(rows: Path) -> None:
    """Whatever a function raises on a row, its row alone is left out; but not for what is the machine's."""

    def fail(x: int) -> int:
        return x // (x % 13)

    def choose(x: int) -> bool:
        return 1 // (x % 13) >= 0

    def missing(x: int) -> bool:
        if x == 14:
            raise FileNotFoundError(x)
        return x % 2 == 0

    def damaged(ids: Any) -> Any:
        if (ids % 13 == 0).any():
            raise OSError("image file is truncated")  # as PIL says it of a row among others
        return ids

    def ids(batches: Any) -> list[int]:
        return sorted(int(i) for batch in batches for i in batch.label)

    left = [row for row in range(ROWS) if row % 13]
    op = penstock.op(fail, out={"made": penstock.int64}, by="rows")
    given: dict[str, Any] = {"features": penstock.label("id") + penstock.tensor("made")}
    data = {most: penstock.Data(on_error={"skip_rows": most}) for most in (4, 5)}
    with load(rows, op("id"), data=data[5], epochs=2, **given) as loader:
        assert ids(loader) == ids(loader) == left
    whole = penstock.op(damaged, out={"made": penstock.int64}, by="numpy")
    with load(rows, whole("id"), data=data[5], **given) as loader:
        assert ids(loader) == left
    with (
        load(rows, op("id"), data=data[4], **given) as loader,
        pytest.raises(DataError, match=r"epoch 1 has 5 bad rows or more(.|\n)*row \d+ fails: ZeroDivisionError"),
    ):
        list(loader)
    given = {"features": penstock.label("id"), "data": data[5]}
    chosen = penstock.op(choose, by="rows", kind="filter")
    for last_batch in ("uneven", "drop"):  # which counts, by the same function
        with load(rows, chosen("id"), last_batch=last_batch, **given | {"batch_size": 2}) as loader:
            assert ids(loader) == left
    own = penstock.op(missing, by="rows", kind="filter")
    with load(rows, own("id"), **given) as loader, pytest.raises(DataError, match="FileNotFoundError"):
        list(loader)
