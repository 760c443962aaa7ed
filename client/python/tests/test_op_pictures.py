"""Decoded pictures as inputs of functions: what they get, without a worker and through one, beside Pillow by hand."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import DataLoader, _op_child
from penstock._op_values import Array
from penstock.errors import DataError, SpecError

ROWS, NULL = 30, 7


@penstock.op(out={"mean": penstock.float64, "height": penstock.int32}, by="rows")
def describe(photo: Array | None) -> tuple[float | None, int]:
    if photo is None:
        return None, 0
    assert photo.dtype == np.uint8 and not photo.flags.writeable and photo.shape[2] == 3
    return float(photo.mean()), photo.shape[0]


@pytest.mark.every_python
def test_pictures_cross() -> None:
    """As the worker lays them out: bits, ends, pixels, and heights and widths."""
    pixels, sizes = np.arange(2 * 3 * 3 + 1 * 2 * 3, dtype=np.uint8), np.array([2, 3, 0, 0, 1, 2], np.int32)
    ends = np.array([0, 18, 18, 24], np.int32)
    for valid in (None, b"\x05"):
        pieces: list[Any] = [valid, ends.tobytes(), pixels.tobytes(), sizes.tobytes()]
        places, end = _op_child._placed(pieces)
        segment = bytearray(end)
        for at, piece in zip(places[::2], pieces, strict=True):
            if piece is not None:
                segment[at : at + len(piece)] = piece
        kind = _op_child._kind({"kind": "picture", "shape": [0, 0, 3]})
        column: Any
        [column] = _op_child._columns(pa.py_buffer(bytes(segment)), [kind], 3, places)
        first, second, third = column
        assert (first == pixels[:18].reshape(2, 3, 3)).all() and (third == pixels[18:].reshape(1, 2, 3)).all()
        assert second is None if valid else second.shape == (0, 0, 3)
        assert not first.flags.writeable


@pytest.mark.every_python
def test_check_takes_pictures() -> None:
    draw = np.random.default_rng(1)
    some: list[Any] = [draw.integers(0, 256, (4 + i, 5, 3), np.uint8) for i in range(5)]
    some[2] = None
    assert penstock.check(describe("photo"), {"photo": some})["height"].to_pylist() == [4, 5, 0, 7, 8]
    same = np.stack([draw.integers(0, 256, (4, 5, 3), np.uint8) for _ in range(5)])

    @penstock.op(out={"top": penstock.uint8.tensor(5, 3), "id": penstock.int64}, by="numpy")
    def top(photos: Array, ids: Array) -> Any:
        assert photos.dtype == np.uint8 and photos.ndim == 4
        return photos[:, 0], ids

    made = penstock.check(top("photo", "id"), {"photo": same, "id": range(5)})
    assert np.array_equal(np.array(made["top"].to_pylist(), np.uint8), same[:, 0].reshape(5, -1))
    with pytest.raises(SpecError, match="different numbers of rows"):
        penstock.check(top("photo", "id"), {"photo": same, "id": [1]})


# Through a worker.


def encoded(row: int) -> bytes:
    from PIL import Image  # here, since Pythons that run none of these tests lack it

    draw = np.random.default_rng(row)
    pixels = draw.integers(0, 256, (20 + row % 5, 24 + row % 7, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG" if row % 3 else "JPEG", quality=90)
    return out.getvalue()


def decoded(row: int, size: tuple[int, int] | None = None) -> Array:
    from PIL import Image

    image = Image.open(io.BytesIO(encoded(row))).convert("RGB")
    if size is not None:
        image = image.resize((size[1], image.height), Image.Resampling.BILINEAR)
        image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    return np.asarray(image)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory, fleet_of_this_machine: None) -> Path:
    file = tmp_path_factory.mktemp("pictures") / "photos.parquet"
    columns = {"id": range(ROWS), "photo": [None if row == NULL else encoded(row) for row in range(ROWS)]}
    pq.write_table(pa.table(columns), file, row_group_size=8)
    return file


def load(photos: Path, *transforms: Any, features: Any, **more: Any) -> DataLoader:
    given: dict[str, Any] = {"batch_size": 4, "epochs": 1, "last_batch": "uneven", **more}
    return DataLoader(
        photos, features=penstock.label("id") + features, transforms=list(transforms), format="numpy", **given
    )


DECODE = penstock.decode_image("photo")


@pytest.mark.fleet
def test_functions_by_rows_get_pictures_of_any_size(photos: Path) -> None:
    with load(photos, DECODE, describe("photo"), features=penstock.label("mean", "height"), shuffle=True) as loader:
        rows = [row for batch in loader for row in batch.to_arrow().to_pylist()]
    assert sorted(row["id"] for row in rows) == list(range(ROWS))
    for row in rows:
        if row["id"] == NULL:
            assert row["height"] == 0
            continue
        assert (row["mean"], row["height"]) == (decoded(row["id"]).mean(), decoded(row["id"]).shape[0])


@pytest.mark.fleet
def test_an_augmentation_makes_tensors(photos: Path) -> None:
    """decode_image, resize, a function of the user's that draws, and a tensor of what it makes."""

    @penstock.op(kind="filter", by="rows")
    def there(photo: Array | None) -> bool:
        return photo is not None and photo.shape[0] != 21

    @penstock.op(out={"x": penstock.uint8.tensor(16, 12, 3), "flipped": penstock.bool_}, by="rows", rng=True)
    def augment(photo: Array, rng: np.random.Generator) -> Any:
        flipped = bool(rng.random() < 0.5)
        return photo[:, ::-1] if flipped else photo, flipped

    @penstock.op(out={"y": penstock.uint8.tensor(16, 12, 3)}, by="numpy")
    def invert(photo: Array) -> Array:
        assert photo.shape[1:] == (16, 12, 3) and photo.dtype == np.uint8
        return 255 - photo

    small = penstock.resize("photo", (16, 12), out="small")
    chain = [DECODE, there("photo"), small, augment("small"), invert("small")]
    features = penstock.tensor("x", "y", "flipped") + penstock.image("small")
    seen = []
    with load(photos, *chain, features=features, shuffle=True, seed=1) as loader:
        for batch in loader:
            for i, row in enumerate(batch.label.tolist()):
                wanted = decoded(row, (16, 12))
                flipped = batch.tensors["flipped"][i]
                assert np.array_equal(batch.tensors["x"][i], wanted[:, ::-1] if flipped else wanted)
                assert np.array_equal(batch.tensors["y"][i], 255 - wanted)
                assert np.array_equal(np.asarray(batch.images["small"][i]), wanted)
                seen.append((row, bool(flipped)))
    passed = [row for row in range(ROWS) if row != NULL and decoded(row).shape[0] != 21]
    assert sorted(row for row, _ in seen) == passed
    assert {flipped for _, flipped in seen} == {True, False}


@pytest.mark.fleet
def test_pictures_of_several_rows_and_sizes_by_numpy(photos: Path) -> None:
    @penstock.op(out={"part": penstock.int32}, kind="flat_map", by="rows")
    def twice(id: int) -> list[int]:  # noqa: A002
        return [0, 1]

    @penstock.op(out={"area": penstock.int64}, by="numpy")
    def area(photo: Array) -> list[int]:
        assert photo.dtype == object
        return [0 if each is None else each.shape[0] * each.shape[1] for each in photo]

    with load(photos, DECODE, twice("id"), area("photo"), features=penstock.label("part", "area")) as loader:
        found = sorted((r["id"], r["part"], r["area"]) for batch in loader for r in batch.to_arrow().to_pylist())
    areas = [0 if row == NULL else decoded(row).shape[0] * decoded(row).shape[1] for row in range(ROWS)]
    assert found == [(row, part, areas[row]) for row in range(ROWS) for part in (0, 1)]


@pytest.mark.fleet
def test_what_functions_cannot_do_with_pictures(photos: Path) -> None:
    arrow = penstock.op(lambda photo: photo, out={"x": penstock.int32}, name="mine")
    with pytest.raises(SpecError, match=r'picture\(3 channels, of any size\), for which Arrow.*by="numpy".*by="rows"'):
        next(iter(load(photos, DECODE, arrow("photo"), features=penstock.label("x"))))
    rows = penstock.op(lambda photo: 1, out={"x": penstock.int32}, by="rows", name="mine")
    normal = penstock.normalize("photo", mean=[0.5, 0.5, 0.5], std=[1.0, 1.0, 1.0])
    size = penstock.resize("photo", (4, 4))
    with pytest.raises(SpecError, match=r"4 x 4, float32.*call mine before it"):
        next(iter(load(photos, DECODE, size, normal, rows("photo"), features=penstock.label("x"))))
    whole = penstock.op(lambda photo: photo[:, 0, 0, 0], out={"x": penstock.uint8}, by="numpy", name="mine")
    says = rf"row {NULL} fails.*input photo of mine has a null"
    with (
        load(photos, DECODE, size, whole("photo"), features=penstock.tensor("x")) as loader,
        pytest.raises(DataError, match=says),
    ):
        list(loader)


@pytest.mark.fleet
def test_a_picture_that_is_none_is_an_error_with_its_row(tmp_path: Path, fleet_of_this_machine: None) -> None:
    file = tmp_path / "photos.parquet"
    pq.write_table(pa.table({"id": range(3), "photo": [encoded(0), encoded(1)[:60], encoded(2)]}), file)
    says = r"\(python describe\): row 1 has no picture: decode_image: "
    with (
        load(file, DECODE, describe("photo"), features=penstock.label("mean")) as loader,
        pytest.raises(DataError, match=says),
    ):
        list(loader)
