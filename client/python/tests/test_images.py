"""Pictures through a real fleet, compared with what Pillow makes of them, byte for byte."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import errors
from penstock.loader import DataLoader

if TYPE_CHECKING:
    from tests.conftest import Fleet

ROWS = 60
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DECODE = penstock.decode_image("photo")


def picture(seed: int) -> bytes:
    """JPEGs of all kinds, and some PNGs."""
    draw = random.Random(seed)
    width, height = draw.randint(20, 90), draw.randint(20, 90)
    from PIL import Image  # here, since Pythons that run none of these tests lack it

    image = Image.frombytes("RGB", (5, 4), draw.randbytes(60)).resize((width, height), Image.Resampling.BICUBIC)
    out = io.BytesIO()
    if seed % 5 == 4:
        image.convert(draw.choice(["RGB", "RGBA", "L", "P"])).save(out, "PNG")
    else:
        image = image.convert(draw.choice(["RGB", "RGB", "RGB", "L", "CMYK"]))
        image.save(out, "JPEG", subsampling=draw.choice([0, 1, 2]), progressive=draw.random() < 0.4)
    return out.getvalue()


def write(folder: Path, pictures: list[bytes | None]) -> None:
    folder.mkdir()
    table = pa.table({"photo": pa.array(pictures, pa.binary()), "label": pa.array(range(len(pictures)), pa.int64())})
    pq.write_table(table, folder / "photos.parquet", row_group_size=16)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images") / "photos"
    write(folder, [None if i == 7 else picture(i) for i in range(ROWS)])
    return folder


def resized(encoded: bytes | None, height: int, width: int) -> np.ndarray[Any, Any]:
    if encoded is None:
        return np.zeros((height, width, 3), np.uint8)
    from PIL import Image

    image = Image.open(io.BytesIO(encoded)).convert("RGB")
    image = image.resize((width, image.height), Image.Resampling.BILINEAR)
    return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))


def loader(fleet: Fleet, folder: Path, transforms: list[Any], **options: Any) -> DataLoader:
    features = penstock.image("photo", shape=options.pop("shape", None)) + penstock.label("label")
    usual: dict[str, Any] = {
        "batch_size": 8, "format": "numpy", "master": fleet.master, "data": penstock.Data(provenance=True),
    }  # fmt: skip
    return DataLoader(str(folder), features=features, transforms=transforms, **(usual | options))


def read(made: DataLoader) -> tuple[np.ndarray[Any, Any], list[int]]:
    """The images of an epoch by label, and the order of the labels."""
    with made:
        batches = list(made)
    images = np.concatenate([np.asarray(b.images["photo"]) for b in batches])
    labels = np.concatenate([np.asarray(b.label) for b in batches]).tolist()
    out = np.empty_like(images)
    out[labels] = images
    assert sorted(labels) == list(range(len(images)))
    return out, labels


def test_resized_as_pillow_does(shared_fleet: Fleet, photos: Path) -> None:
    got, _ = read(loader(shared_fleet, photos, [DECODE, penstock.resize("photo", (24, 32))], shuffle=True))
    assert (got.shape, got.dtype) == ((ROWS, 24, 32, 3), np.uint8)
    pictures = pq.read_table(photos)["photo"].to_pylist()
    for i, encoded in enumerate(pictures):
        np.testing.assert_array_equal(got[i], resized(encoded, 24, 32), err_msg=f"row {i}")


def test_normalized_channel_by_channel(shared_fleet: Fleet, photos: Path) -> None:
    transforms = [DECODE, penstock.resize("photo", (24, 32)), penstock.normalize("photo", MEAN, STD)]
    got, _ = read(loader(shared_fleet, photos, transforms, shape=(3, 24, 32)))
    assert (got.shape, got.dtype) == ((ROWS, 3, 24, 32), np.float32)
    for i, encoded in enumerate(pq.read_table(photos)["photo"].to_pylist()):
        if encoded is None:
            assert not got[i].any()
            continue
        scaled = resized(encoded, 24, 32).astype(np.float32) / np.float32(255)
        want = (scaled - np.array(MEAN, np.float32)) / np.array(STD, np.float32)
        np.testing.assert_array_equal(got[i], want.transpose(2, 0, 1), err_msg=f"row {i}")


def test_augmented_by_row_and_epoch(shared_fleet: Fleet, photos: Path) -> None:
    """A row looks the same in any order of reading; another epoch or seed, and it looks otherwise."""
    transforms = [DECODE, penstock.random_resized_crop("photo", 20), penstock.flip("photo")]
    first, order = read(loader(shared_fleet, photos, transforms, shuffle=True, seed=1))
    again, _ = read(loader(shared_fleet, photos, transforms, seed=1, batch_size=5))
    other, _ = read(loader(shared_fleet, photos, transforms, seed=2))
    assert order != sorted(order)
    np.testing.assert_array_equal(first, again)
    assert sum((a != b).any() for a, b in zip(first, other, strict=True)) > ROWS * 0.9
    with loader(shared_fleet, photos, transforms, seed=1, epochs=2) as made:
        epochs = [
            {int(n): im for b in made for n, im in zip(b.label, b.images["photo"], strict=True)} for _ in range(2)
        ]
    np.testing.assert_array_equal(np.stack([epochs[0][i] for i in range(ROWS)]), first)
    assert sum((epochs[0][i] != epochs[1][i]).any() for i in range(ROWS)) > ROWS * 0.9


def test_what_is_no_picture(shared_fleet: Fleet, tmp_path: Path) -> None:
    """The error names file, row and op; with on_error the row group is left out behind the rows before it."""
    pictures: list[bytes | None] = [picture(i) for i in range(48)]
    pictures[20] = b"\xff\xd8 this is none"
    write(tmp_path / "photos", pictures)
    transforms = [DECODE, penstock.resize("photo", (8, 8))]
    with (
        pytest.raises(errors.Error, match=r"photos\.parquet row group 1: .*row 20: decode_image: "),
        loader(shared_fleet, tmp_path / "photos", transforms) as made,
    ):
        list(made)
    skip = penstock.Data(on_error={"skip": 1})
    with loader(shared_fleet, tmp_path / "photos", transforms, data=skip, batch_size=1) as made:
        labels = [int(b.label[0]) for b in made]
    assert set(range(16)) | set(range(32, 48)) <= set(labels) <= set(range(20)) | set(range(32, 48))
    rows = penstock.Data(on_error={"skip_rows": 1})
    with loader(shared_fleet, tmp_path / "photos", transforms, data=rows, batch_size=1) as made:
        labels = [int(b.label[0]) for b in made]
    assert labels == [i for i in range(48) if i != 20]


@pytest.mark.parametrize(
    ("transforms", "message"),
    [
        ([], r"want \[height, width, channels\] of raw pixels"),
        ([DECODE], "all images of a tensor have one size; add a transform"),
        ([penstock.resize("photo", 8)], "want pictures, found binary; decode_jpeg"),
        ([DECODE, penstock.center_crop("photo", 8)], "resize them first"),
        ([DECODE, penstock.resize("photo", 8), penstock.center_crop("photo", 9)], "more than the pictures have"),
        ([DECODE, penstock.cast("photo", "int32")], "picture"),
        ([DECODE, penstock.resize("photo", (8, 8)), penstock.resize("photo", (4, 4))], "resized already"),
        ([DECODE, penstock.resize("photo", (8, 8)), penstock.normalize("photo", [1, 2], 1)], "each of 3 channels"),
    ],
)
def test_mistakes(shared_fleet: Fleet, photos: Path, transforms: list[Any], message: str) -> None:
    with pytest.raises(errors.SpecError, match=message), loader(shared_fleet, photos, transforms) as made:
        next(iter(made))
