"""Writes JPEGs of many kinds to a folder, and decodes them and those of other folders there with Pillow.

Of NAME.jpeg, NAME.rgb holds the pixels, and NAME.gray the luminance, where Pillow can be told to decode just that.
"""

import itertools
import random
import shutil
import sys
from pathlib import Path

from PIL import Image, ImageFilter


def photo(width: int, height: int, seed: int) -> Image.Image:
    """Soft shapes, edges and noise."""
    draw = random.Random(seed)
    small = Image.frombytes("RGB", (9, 7), draw.randbytes(9 * 7 * 3))
    soft = small.resize((width, height), Image.Resampling.BICUBIC)
    noise = Image.frombytes("RGB", (width, height), draw.randbytes(width * height * 3)).filter(ImageFilter.BoxBlur(1))
    mixed = Image.blend(soft, noise, 0.2)
    hard = small.resize((width, height), Image.Resampling.NEAREST)
    mixed.paste(hard.crop((0, 0, max(1, width // 3), max(1, height // 3))), (width // 4, height // 4))
    return mixed


def write(folder: Path) -> None:
    sizes = [(1, 1), (2, 3), (5, 4), (8, 8), (16, 17), (33, 15), (100, 75), (227, 149)]
    for (w, h), subsampling, progressive, quality in itertools.product(sizes, (0, 1, 2), (False, True), (30, 75, 98)):
        name = f"{w}x{h}-s{subsampling}-{'p' if progressive else 'b'}-q{quality}"
        photo(w, h, w * h).save(
            folder / f"{name}.jpeg",
            quality=quality,
            subsampling=subsampling,
            progressive=progressive,
            optimize=quality == 75,
        )
    for w, h in sizes:
        image = photo(w, h, w + h)
        for progressive in (False, True):
            kind = f"{w}x{h}-{'p' if progressive else 'b'}"
            image.convert("L").save(folder / f"gray-{kind}.jpeg", progressive=progressive)
            image.convert("CMYK").save(folder / f"cmyk-{kind}.jpeg", progressive=progressive, quality=90)
            image.save(folder / f"rgb-{kind}.jpeg", progressive=progressive, keep_rgb=True)
            image.save(folder / f"restart-{kind}.jpeg", progressive=progressive, restart_marker_blocks=2)
            image.save(folder / f"restart-rows-{kind}.jpeg", progressive=progressive, restart_marker_rows=1)
            data = (folder / f"restart-{kind}.jpeg").read_bytes()
            segments = 20  # SOI and APP0
            (folder / f"junk-{kind}.jpeg").write_bytes(data[:segments] + b"junk\xff\0\xff" + data[segments:])
            exif = Image.Exif()
            exif[0x112] = 6
            image.save(folder / f"turned-{kind}.jpeg", progressive=progressive, exif=exif)


def main() -> None:
    folder = Path(sys.argv[1])
    write(folder)
    for other in sys.argv[2:]:
        for path in Path(other).glob("*.jp*g"):
            shutil.copy(path, folder / f"{path.stem}.jpeg")
    for path in folder.glob("*.jpeg"):
        try:
            with Image.open(path) as image:
                path.with_suffix(".rgb").write_bytes(image.convert("RGB").tobytes())
        except OSError:
            continue
        with Image.open(path) as image:
            image.draft("L", image.size)
            if image.mode == "L":
                path.with_suffix(".gray").write_bytes(image.tobytes())


if __name__ == "__main__":
    main()
