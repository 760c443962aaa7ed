"""TFRecord of numbers and ids under tf.data, and MDS of tokens under streaming's dataset."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from peers.formats.data import DENSE
from peers.formats.reading import BATCH, Found, one_thread, workers


def tfdata(data: Path) -> Callable[[], Found]:
    """tf.data: records are read in parallel, and parsed by whole batches."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    features = {
        "label": tf.io.FixedLenFeature([], tf.int64), "dense": tf.io.FixedLenFeature([DENSE], tf.float32),
        "ids": tf.io.RaggedFeature(tf.int64),
    }  # fmt: skip
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = workers()
    dataset = (
        tf.data.TFRecordDataset([str(f) for f in sorted(data.glob("*.tfrecord"))], num_parallel_reads=workers())
        .batch(BATCH["tfrecord"], num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
        .map(lambda records: tf.io.parse_example(records, features), num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE).with_options(options)
    )  # fmt: skip

    def read() -> Found:
        rows, total = 0, 0.0
        for batch in dataset:
            label, ids = batch["label"].numpy(), batch["ids"].flat_values.numpy()
            rows += len(label)
            total += float(label.sum() + ids.sum()) + float(batch["dense"].numpy().sum(dtype=np.float64))
        return rows, total

    return read


def streaming(data: Path) -> Callable[[], Found]:
    """StreamingDataset under DataLoader, on local files."""
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory
    from torch.utils.data import DataLoader

    clean_stale_shared_memory()
    one_thread(0)
    dataset = StreamingDataset(local=str(data / "mds"), shuffle=False, batch_size=BATCH["mds"])
    loader = DataLoader(
        dataset, batch_size=BATCH["mds"], num_workers=workers(), persistent_workers=True, worker_init_fn=one_thread
    )

    def read() -> Found:
        rows, total = 0, 0.0
        for batch in loader:
            rows += len(batch["label"])
            total += float(batch["label"].sum() + batch["tokens"].sum()) + sum(map(len, batch["text"]))
        return rows, total

    return read
