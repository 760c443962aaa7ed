"""tf.data service: a dispatcher and workers as processes, and TensorFlow's ops on whole batches.

TensorFlow reads no Parquet (tensorflow-io has no release for this TensorFlow), and the same files are asked for. So
pyarrow reads them, batch by batch, in a numpy_function, and the GIL is free while it decodes. A numpy_function is
known only to the process that made it; a worker therefore makes the same pipeline before it serves, and finds the
trainer's function under the same token. A local worker is in the trainer's process, and hands batches over by memory
(target_workers="LOCAL"). Transforms are TensorFlow's, on whole batches, or numpy's, those of the other systems
(transforms="numpy"). Interleaved reading, dynamic sharding, autotuned parallel maps, prefetching and, since everything
is on one machine, uncompressed transfer are as its guides advise. Arrays are aligned as TensorFlow's own, so that it
takes them over without copying, and batches are views of its tensors.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import pyarrow as pa
import tensorflow as tf

from peers import columnar
from peers.recipe import Recipe
from peers.subject import Batch, Run
from peers.systems import row_groups
from peers.systems.twin import as_batch

SERVICE = tf.data.experimental.service
ALIGNMENT = 64  # bytes, of TensorFlow's tensors


class Reader:
    """Reads row groups batch by batch."""

    def __init__(self, recipe: Recipe, files: Sequence[str], finished: bool) -> None:
        pa.set_cpu_count(1)
        self._recipe, self.groups, self._finished = recipe, row_groups.listed(files), finished
        self.batches = [  # of each row group
            -(-row_groups.footer(file).row_group(group).num_rows // recipe.batch_size) for file, group in self.groups
        ]
        self._open: dict[int, Generator[pa.RecordBatch]] = {}

    def read(self, group: Any, number: Any) -> tuple[columnar.Array, ...]:
        """The next batch of a row group; the first, if number is 0."""
        group = int(group)
        if number == 0:
            self._open[group] = row_groups.batches(self._recipe, [self.groups[group]])
        batch = next(self._open[group])
        if number == self.batches[group] - 1:
            self._open.pop(group).close()
        if self._finished:
            return columnar.transform(self._recipe, batch, aligned).parts()
        return columnar.pack(self._recipe, batch, empty=aligned, columns=aligned).parts()


def aligned(shape: Any, dtype: Any) -> columnar.Array:
    """An array where TensorFlow wants it; others it copies."""
    dtype = np.dtype(dtype)
    size = math.prod(shape if isinstance(shape, tuple) else (shape,)) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    array: columnar.Array = memory[begin : begin + size].view(dtype).reshape(shape)
    return array


def pipeline(recipe: Recipe, files: Sequence[str], cycle: int, finished: bool) -> Any:
    """The dataset of all batches, before it is distributed. They are finished if numpy has transformed them."""
    reader = Reader(recipe, files, finished)
    types = [tf.int64, tf.int32, tf.float32, tf.int64, tf.int32, tf.int64, tf.uint8 if finished else tf.string]
    count = len(recipe.ragged) if finished else len(recipe.sparse)
    dense = [None, len(recipe.dense)] if finished else [len(recipe.dense), None]
    photos = [None] * 4 if finished and recipe.photo else [None]
    shapes = [[None], [None], dense, [None], [count, None], [count + 1], photos]

    def read(group: Any, number: Any) -> tuple[Any, ...]:
        tensors = tf.numpy_function(reader.read, [group, number], types)
        for tensor, shape in zip(tensors, shapes, strict=True):
            tensor.set_shape(shape)
        return tuple(tensors)

    source = tf.data.Dataset.from_tensor_slices((np.arange(len(reader.groups)), np.array(reader.batches)))
    read_groups = source.interleave(
        lambda group, batches: tf.data.Dataset.range(batches).map(lambda number: read(group, number)),
        cycle_length=cycle, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False,
    )  # fmt: skip
    if not finished:
        read_groups = read_groups.map(
            lambda *parts: transform(recipe, *parts), num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
        )
    return read_groups.prefetch(tf.data.AUTOTUNE)


def transform(
    recipe: Recipe, row: Any, label: Any, dense: Any, values: Any, offsets: Any, starts: Any, photos: Any
) -> Any:
    """The recipe's steps on a batch whose dense columns lie one below the other, without nulls."""
    rows = tf.size(row)
    if recipe.sparse and recipe.buckets:
        values = sigrid_hash(values, recipe.salt, recipe.buckets)
    if recipe.generated:
        chosen = tf.reshape(tf.gather(dense, [source for _, source in recipe.generated]), [-1])
        made = tf.searchsorted(tf.constant(recipe.borders), chosen, side="left", out_type=tf.int64)
        count = len(recipe.generated)
        values = tf.concat([values, made], 0)
        offsets = tf.concat([offsets, tf.tile(tf.range(rows + 1)[tf.newaxis], [count, 1])], 0)
        starts = tf.concat([starts, starts[-1] + tf.range(1, count + 1, dtype=tf.int64) * tf.cast(rows, tf.int64)], 0)
    if recipe.log:
        dense = tf.math.log1p(dense)
    if recipe.photo:
        photos = tf.map_fn(lambda one: picture(recipe, one), photos, fn_output_signature=tf.uint8)
    return row, label, tf.transpose(dense), values, offsets, starts, photos


def picture(recipe: Recipe, encoded: Any) -> Any:
    """A decoded picture; of random parts no more is decoded than is needed."""
    if recipe.random:
        shape = tf.io.extract_jpeg_shape(encoded)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, tf.zeros([1, 0, 4]), area_range=(0.08, 1.0), use_image_if_no_bounding_boxes=True
        )
        window = tf.concat([begin[:2], size[:2]], 0)
        image = tf.io.decode_and_crop_jpeg(encoded, window, channels=3)
    else:
        image = tf.io.decode_jpeg(encoded, channels=3)
    image = tf.image.resize(image, [recipe.crop, recipe.crop], antialias=True)
    return tf.cast(tf.round(image), tf.uint8)


def sigrid_hash(ids: Any, salt: int, buckets: int) -> Any:
    """See columnar.sigrid_hash."""
    left, right, xor = tf.bitwise.left_shift, tf.bitwise.right_shift, tf.bitwise.bitwise_xor

    def word(n: int) -> Any:
        return tf.constant(n, tf.uint64)

    def xor_shifted(x: Any, bits: int) -> Any:
        return xor(x, right(x, word(bits)))

    x = tf.bitcast(ids, tf.uint64)
    x = left(x, word(21)) - x - word(1)
    x = xor_shifted(x, 24) * word(265)
    x = xor_shifted(x, 14) * word(21)
    x = xor_shifted(x, 28)
    x = x + left(x, word(31))
    k = word(0x9DDFEA08EB382D69)
    x = xor_shifted(xor(x, word(salt)) * k, 47)
    x = xor_shifted(xor(x, word(salt)) * k, 47) * k
    return tf.math.floormod(tf.bitcast(x, tf.int64), tf.constant(buckets, tf.int64))


def view(tensor: Any) -> columnar.Array:
    """A tensor's values as an array. Its own numpy() copies them, and only that has strings."""
    return tensor.numpy() if tensor.dtype == tf.string else np.asarray(memoryview(tensor))


def work_for(dispatcher: str) -> Any:
    """A worker in this process, which soon says that it is through; by default that may take half a minute."""
    return SERVICE.WorkerServer(SERVICE.WorkerConfig(dispatcher_address=dispatcher, port=0, heartbeat_interval_ms=100))


class System:
    """See peers.subject."""

    def __init__(self, run: Run, recipe: Recipe) -> None:
        self._run, self._recipe, self._finished = run, recipe, run.options.get("transforms") == "numpy"
        self._workers: list[subprocess.Popen[str]] = []
        self._local: list[Any] = []
        self.versions = {"tensorflow": tf.__version__, "pyarrow": pa.__version__, "numpy": np.__version__}

    def start(self) -> None:
        """Runs the dispatcher and the workers."""
        address, local = self._serve("dispatcher", ""), self._run.options.get("local", False)
        dataset = pipeline(self._recipe, self._run.files, self._run.cpus, self._finished)
        for _ in range(int(self._run.options["workers"])):
            if local:
                self._local.append(work_for(address))
            else:
                self._serve("worker", address)
        self._dataset = dataset.apply(
            SERVICE.distribute(
                processing_mode=SERVICE.ShardingPolicy.DYNAMIC, service=f"grpc://{address}", compression=None,
                target_workers="LOCAL" if local else "AUTO",
            )
        ).prefetch(tf.data.AUTOTUNE)  # fmt: skip

    def _serve(self, role: str, dispatcher: str) -> str:
        config = Path(self._run.scratch) / f"{role}-{len(self._workers)}.json"
        config.write_text(json.dumps({
            "role": role, "dispatcher": dispatcher, "recipe": self._run.recipe, "files": list(self._run.files),
            "cycle": self._run.cpus, "finished": self._finished,
        }))  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "peers.systems.tfdata", str(config)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._workers.append(process)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise RuntimeError(f"tf.data's {role} did not come up; it said why above")
        return address

    def read(self) -> Iterator[Batch]:
        """Batches of numpy arrays, views of TensorFlow's."""
        for parts in self._dataset:
            yield as_batch(self._recipe, columnar.Columns(*map(view, parts)))

    def close(self) -> None:
        """Ends the workers and the dispatcher."""
        for process in reversed(self._workers):
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)


def main() -> None:
    """Serves until standard input closes."""
    config = json.loads(Path(sys.argv[1]).read_text())
    if config["role"] == "dispatcher":
        server: Any = SERVICE.DispatchServer(SERVICE.DispatcherConfig(port=0))
        print(server.target.removeprefix("grpc://"), flush=True)
    else:
        recipe = Recipe.parse(config["recipe"])
        known = pipeline(recipe, config["files"], config["cycle"], config["finished"])  # keeps its numpy_function
        server = work_for(config["dispatcher"])
        print(known.element_spec is not None and server._address, flush=True)
    sys.stdin.read()
    os._exit(0)  # servers are not made to end: stopping one waits for the others


if __name__ == "__main__":
    main()
