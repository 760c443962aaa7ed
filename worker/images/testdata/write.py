"""Writes pictures of many kinds to a folder, and what Pillow makes of them: whole, and parts of them resized.

FILE.views.json lists the views of FILE: the part, the size it is resized to, the mode, whether it was turned as EXIF
says, and the name of the file with the pixels.
"""

import json
import random
import shutil
import sys
from pathlib import Path

from PIL import Image, ImageFilter, ImageOps


def photo(width: int, height: int, seed: int) -> Image.Image:
    draw = random.Random(seed)
    small = Image.frombytes("RGB", (9, 7), draw.randbytes(9 * 7 * 3))
    noise = Image.frombytes("RGB", (width, height), draw.randbytes(width * height * 3)).filter(ImageFilter.BoxBlur(1))
    return Image.blend(small.resize((width, height), Image.Resampling.BICUBIC), noise, 0.2)


def write(folder: Path) -> None:
    for width, height in [(1, 1), (7, 5), (40, 61), (333, 250)]:
        image = photo(width, height, width)
        name = f"{width}x{height}"
        image.save(folder / f"{name}.jpeg", quality=90)
        image.save(folder / f"{name}-progressive.jpeg", progressive=True)
        for orientation in range(1, 9):
            exif = Image.Exif()
            exif[0x112] = orientation
            image.save(folder / f"{name}-turned{orientation}.jpeg", exif=exif)
        alpha = image.convert("RGBA")
        alpha.putalpha(image.convert("L"))
        for mode in ["1", "L", "LA", "P", "RGB", "RGBA"]:
            (alpha if mode in ("LA", "RGBA") else image).convert(mode).save(folder / f"{name}-{mode}.png")
        image.convert("P").save(folder / f"{name}-transparent.png", transparency=3)


def views(path: Path) -> None:
    draw = random.Random(path.name)
    listed = []
    with Image.open(path) as opened:
        if opened.mode.startswith("I"):
            return  # Pillow makes no bytes of 16 bits of gray but by cutting off
        opened.load()
    sizes = [(7, 9), (32, 32), (100, 60)]
    for turned in (False, True):
        image = ImageOps.exif_transpose(opened) if turned else opened
        for mode in ("RGB", "L"):
            if mode == "L" and (path.suffix == ".jpeg" or image.mode in ("P", "PA")):
                continue  # Pillow's luminance goes by RGB there
            plain = image.convert("RGB") if mode == "RGB" or image.mode not in ("L", "1", "LA") else image.convert("L")
            plain = plain.convert(mode)
            left, top = draw.randrange(plain.width), draw.randrange(plain.height)
            box = (left, top, draw.randint(left + 1, plain.width), draw.randint(top + 1, plain.height))
            for part, size in [((0, 0, *plain.size), s) for s in [*sizes, plain.size]] + [(box, s) for s in sizes]:
                name = f"{path.name}-{len(listed)}.pixels"
                made = plain.crop(part)
                if not turned:
                    # The width first: by itself, Pillow takes the order that is faster, and its versions do not agree on that.
                    made = made.resize((size[0], made.height), Image.Resampling.BILINEAR)
                    made = made.resize(size, Image.Resampling.BILINEAR)
                elif (part, size) != ((0, 0, *plain.size), plain.size):
                    continue  # turned pictures are resampled as they are stored, which rounds otherwise
                (path.parent / name).write_bytes(made.tobytes())
                listed.append({"part": part, "size": made.size, "gray": mode == "L", "upright": turned, "pixels": name})
    path.with_suffix(path.suffix + ".views.json").write_text(json.dumps(listed))


def main() -> None:
    folder = Path(sys.argv[1])
    write(folder)
    for other in sys.argv[2:]:
        for path in [*Path(other).glob("*.jp*g"), *Path(other).glob("*.png")]:
            shutil.copy(path, folder / f"{path.stem}{'.png' if path.suffix == '.png' else '.jpeg'}")
    for path in [*folder.glob("*.jpeg"), *folder.glob("*.png")]:
        try:
            views(path)
        except (OSError, SyntaxError):
            continue


if __name__ == "__main__":
    main()
