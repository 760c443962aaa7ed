"""The tables, by Spark: of Delta Lake and of Iceberg, with the same rows, of which a tenth is deleted.

Spark takes the libraries of both from Maven Central, or from ~/.m2.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES = 8
NUMBERS = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")  # columns: six of float32, two of int32, two of int64
WORDS = np.array(["river", "water", "stone", "wheel", "power", "flow", "gate", "head", "race", "tail", "pool", "weir"])
PACKAGES = "io.delta:delta-spark_2.12:3.3.2,org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.9.2"
DELETED = "pmod(xxhash64(row), 10) = 0"
SETTINGS = {
    "spark.jars.packages": PACKAGES,
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.files.maxPartitionBytes": "1g",
    "spark.sql.files.openCostInBytes": "1g",  # a file each
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}


def make(rows: int, folder: Path) -> Path:
    """Writes the tables, unless they are there: delta/, of which version 0 has no deletes, and ice/db/t/."""
    data = folder / f"lakehouse-{rows}"
    if data.exists():
        return data
    aside = data.with_suffix(".part")
    shutil.rmtree(aside, ignore_errors=True)
    (aside / "source").mkdir(parents=True)
    source(aside / "source", rows)
    by_spark(aside, data)
    shutil.rmtree(data / "source")
    return data


def metadata(data: Path) -> Path:
    """The newest metadata of the table of Iceberg."""
    of = data / "ice/db/t/metadata"
    return of / f"v{(of / 'version-hint.text').read_text().strip()}.metadata.json"


def source(folder: Path, rows: int) -> None:
    """The rows, as Parquet."""
    rng = np.random.default_rng(1)
    for part in range(FILES):
        numbers = np.arange(part * rows // FILES, (part + 1) * rows // FILES)
        n = len(numbers)
        columns: dict[str, Any] = {"row": numbers}
        columns |= {name: rng.standard_normal(n, np.float32) for name in NUMBERS[:6]}
        columns |= {name: rng.integers(0, 1000, n, dtype=np.int32) for name in NUMBERS[6:8]}
        columns |= {name: rng.zipf(1.3, n) % 1_000_000 for name in NUMBERS[8:]}
        words = WORDS[rng.integers(0, len(WORDS), (3, n))]
        columns["text"] = np.char.add(np.char.add(words[0], " "), np.char.add(words[1], words[2]))
        pq.write_table(pa.table(columns), folder / f"part-{part}.parquet")


def by_spark(aside: Path, data: Path) -> None:
    """Moves the source to where the tables will be, since Iceberg's metadata has whole paths, and writes them."""
    from pyspark.sql import SparkSession

    aside.rename(data)
    builder = SparkSession.builder.master("local[2]").config("spark.sql.catalog.ice.warehouse", str(data / "ice"))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        rows = spark.read.parquet(str(data / "source"))
        rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(data / "delta"))
        spark.sql(f"DELETE FROM delta.`{data}/delta` WHERE {DELETED}")
        rows.writeTo("ice.db.t").tableProperty("format-version", "2").tableProperty(
            "write.delete.mode", "merge-on-read").create()  # fmt: skip
        spark.sql(f"DELETE FROM ice.db.t WHERE {DELETED}")
    finally:
        spark.stop()
