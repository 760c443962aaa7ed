"""JPEGs by Pillow, as torchvision uses it: what DataLoader's and Ray's workers run, a picture at a time."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from peers.recipe import Recipe

Array = np.ndarray[Any, Any]


def decoded(encoded: Array, recipe: Recipe, empty: Callable[[Any, Any], Array]) -> Array:
    """uint8 [rows, crop, crop, 3]."""
    from PIL import Image

    side = recipe.crop
    out = empty((len(encoded), side, side, 3), np.uint8)
    for i, one in enumerate(encoded):
        with Image.open(io.BytesIO(one)) as image:
            box = part(*image.size) if recipe.random else (0, 0, *image.size)
            rgb = image if image.mode == "RGB" else image.convert("RGB")  # which copies even what is RGB
            out[i] = rgb.resize((side, side), Image.Resampling.BILINEAR, box)
    return out


def part(width: int, height: int) -> tuple[int, int, int, int]:
    """A random part of a picture, as torchvision's RandomResizedCrop chooses it."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side
