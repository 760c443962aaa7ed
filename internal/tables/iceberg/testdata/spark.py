"""Writes the tables whose names begin with spark-, into the folder that generate.py copies them from.

    SPARK_JARS=iceberg-spark-runtime-3.5_2.12-1.10.1.jar venv/bin/python spark.py FOLDER

generate.py calls this, and says what is needed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import UTC
from decimal import Context, Decimal
from pathlib import Path

from pyspark.sql import Row, SparkSession

import generate

MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read', "
    "'write.distribution-mode'='none', 'write.delete.distribution-mode'='none'"
)


def session(folder: Path) -> SparkSession:
    """A small Spark, whose catalog is a folder."""
    settings = {
        "spark.jars": os.environ["SPARK_JARS"],
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.golden": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.golden.type": "hadoop",
        "spark.sql.catalog.golden.warehouse": str(folder),
        "spark.sql.defaultCatalog": "golden",
    }
    build = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        build = build.config(key, value)
    return build.getOrCreate()


def types(sql: Callable[[str], object]) -> None:
    """Every type that Spark has, nulls, NaN, and nested ones."""
    sql("""create table db.`spark-types` (
        id bigint not null, flag boolean, small int, big bigint, f float, d double,
        p9 decimal(9, 2), p18 decimal(18, 3), p38 decimal(38, 10), day date, at timestamp, wall timestamp_ntz,
        text string, raw binary, point struct<x: double, tag: struct<name: string, n: int>>,
        list array<int>, map map<string, bigint>, deep array<struct<k: string, vs: map<int, array<string>>>>
        ) using iceberg tblproperties ('format-version'='2')""")
    sql("""insert into db.`spark-types` values
        (1, true, 2147483647, 9223372036854775807, float('nan'), double('nan'), 1234567.89, 123456789012345.678,
         1234567890123456789012345678.0123456789BD, date'2024-02-29', timestamp'2024-02-29 01:02:03.456789',
         timestamp_ntz'1969-12-31 23:59:59.999999', 'é\U0010ffff', X'00ff', struct(0.5, struct('a', 1)),
         array(1, null, 3), map('k', 1), array(struct('x', map(1, array('a', null))), null)),
        (2, false, -2147483648, -9223372036854775808, float('-infinity'), double('infinity'), -0.01, -0.001,
         -0.0000000001BD, date'0001-01-01', timestamp'1969-12-31 23:59:59.999999',
         timestamp_ntz'0001-01-01 00:00:00', '', X'',
         struct(null, struct(null, 2)), array(), map('l', null), array()),
        (3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null)""")
    sql("""insert into db.`spark-types`
        select 4, null, null, null, float('-0.0'), 1e300D, null, null, null, null, null, null,
        concat(repeat('\U0010ffff', 40), 'z'), null, null, null, map(), null""")


def evolved(sql: Callable[[str], object]) -> None:
    """Version 1 of the format, compressed metadata: columns come, go, move, and are renamed and widened."""
    sql("""create table db.`spark-evolved` (id int, f float, price decimal(5, 2), text string,
        s struct<a: int, b: string>, list array<struct<v: int>>)
        using iceberg tblproperties ('format-version'='1', 'write.metadata.compression-codec'='gzip')""")
    insert = "insert into db.`spark-evolved` values "
    alter = "alter table db.`spark-evolved` "
    sql(insert + "(1, 1.5, 1.25, 'a', struct(1, 'x'), array(struct(1))), (2, null, -9.99, null, null, array())")
    sql(alter + "rename column text to words")
    sql(alter + "add columns (text string comment 'another one of the old name', flag boolean)")
    sql(insert + "(3, 2.5, 2.5, 'b', struct(2, 'y'), null, 'new', true)")
    sql(alter + "alter column id type bigint")
    sql(alter + "alter column f type double")
    sql(alter + "alter column price type decimal(20, 2)")
    sql(alter + "alter column s.a type bigint")
    sql(alter + "alter column list.element.v type bigint")
    sql(
        insert + "(5000000000, 0.1, 123456789012345678.99, 'c', struct(6000000000, 'z'), array(struct(7000000000)), "
        "'n', false)"
    )
    sql(alter + "alter column flag first")
    sql(alter + "rename column s.b to c")
    sql(alter + "add column s.b string")
    sql(alter + "drop column words")
    sql(insert + "(null, 6, 0.5, 1, struct(1, 'c', 'b'), array(struct(null)), 'last')")
    sql(alter + "drop column f")
    sql(alter + "add column f string")
    sql(insert + "(true, 7, 1, null, array(null), 'text', 'text, not a number')")


def partitioned(sql: Callable[[str], object]) -> None:
    """Partitions by values and by transforms of them, and by others from some version on."""
    sql("""create table db.`spark-partitioned` (id bigint, text string, at timestamp, wall timestamp_ntz, day date,
        price decimal(9, 2), raw binary, flag boolean) using iceberg
        partitioned by (text, bucket(4, id), days(at)) tblproperties ('format-version'='2')""")
    insert = "insert into db.`spark-partitioned` values "
    alter = "alter table db.`spark-partitioned` "
    row = "({}, {}, timestamp'{}', timestamp_ntz'{}', date'{}', {}, X'{}', {})"
    at = "1969-12-31 23:59:59.999999"
    sql(
        insert
        + ", ".join(
            [
                row.format(1, "'a b/c%25=d'", at, at, "1969-12-31", "1.20", "00ff", "true"),
                row.format(2, "'é?#'", "2024-02-29 01:02:03", at, "2024-02-29", "-0.01", "", "false"),
                row.format(3, "null", "2024-02-29 01:02:03", at, "2024-02-29", "0", "01", "null"),
                row.format("null", "'.'", at, at, "0001-01-01", "9999999.99", "ff", "true"),
            ]
        )
    )
    sql(alter + "drop partition field text")
    sql(alter + "drop partition field days(at)")
    sql(alter + "add partition field truncate(2, text)")
    sql(alter + "add partition field hours(wall)")
    sql(alter + "add partition field truncate(100, price)")
    more = [
        row.format(5, "'été'", at, "2024-02-29 23:59:59", "2024-02-29", "-1.01", "0001", "true"),
        row.format(6, "null", at, "1969-12-31 22:00:00", "1969-12-31", "null", "02", "false"),
    ]
    sql(insert + ", ".join(more))
    sql(alter + "drop partition field bucket(4, id)")
    sql(alter + "drop partition field truncate(2, text)")
    sql(alter + "drop partition field hours(wall)")
    sql(alter + "drop partition field truncate(100, price)")
    sql(alter + "add partition field months(day)")
    sql(alter + "add partition field flag")
    more = [
        row.format(7, "'g'", at, at, "1969-11-30", "7", "07", "true"),
        row.format(8, "'h'", at, at, "2024-02-29", "8", "08", "null"),
    ]
    sql(insert + ", ".join(more))
    sql("alter table db.`spark-partitioned` rename column text to words")
    sql("delete from db.`spark-partitioned` where flag = true and day = date'1969-11-30'")


def positions(sql: Callable[[str], object]) -> None:
    """Deletes by position: a file of them for several data files, for one, and after files were rewritten."""
    name = "db.`spark-positions`"
    sql(f"""create table {name} (id bigint, part string, text string) using iceberg partitioned by (part)
        tblproperties ('format-version'='2', 'write.delete.granularity'='partition', {MERGE_ON_READ})""")
    for start in (0, 10, 20):
        sql(f"""insert into {name} select /*+ coalesce(1) */ id, if(id % 2 = 0, 'even', 'odd'), concat('t', id)
            from range({start}, {start + 10})""")
    sql(f"delete from {name} where id in (0, 2, 3, 12, 23)")
    sql(f"alter table {name} set tblproperties ('write.delete.granularity'='file')")
    sql(f"delete from {name} where id in (4, 5, 14)")
    sql(f"update {name} set text = 'changed' where id in (7, 16)")
    sql(
        "call golden.system.rewrite_data_files(table => 'db.`spark-positions`', "
        "options => map('min-input-files', '2'), where => 'part = \"even\"')"
    )
    sql(f"delete from {name} where id in (6, 9)")
    sql(
        "call golden.system.rewrite_position_delete_files(table => 'db.`spark-positions`', "
        "options => map('rewrite-all', 'true'))"
    )
    sql(f"insert into {name} values (0, 'even', 'again'), (100, null, 'no part')")
    sql(f"delete from {name} where id = 100 or id = 21")


def vectors(sql: Callable[[str], object]) -> None:
    """Version 3 of the format: deletion vectors, and one that replaces another."""
    sql(f"""create table db.`spark-vectors` (id bigint, text string) using iceberg
        tblproperties ('format-version'='3', {MERGE_ON_READ})""")
    for start in (0, 10):
        sql(f"""insert into db.`spark-vectors` select /*+ coalesce(1) */ id, concat('t', id)
            from range({start}, {start + 10})""")
    sql("delete from db.`spark-vectors` where id in (1, 3, 12)")
    sql("delete from db.`spark-vectors` where id in (2, 19)")


def upgraded(sql: Callable[[str], object]) -> None:
    """A table of version 1, then 2 with deletes by position, then 3 with vectors."""
    sql("create table db.`spark-upgraded` (id bigint, text string) using iceberg tblproperties ('format-version'='1')")
    for start in (0, 10):
        sql(f"""insert into db.`spark-upgraded` select /*+ coalesce(1) */ id, concat('t', id)
            from range({start}, {start + 10})""")
    sql(f"alter table db.`spark-upgraded` set tblproperties ('format-version'='2', {MERGE_ON_READ})")
    sql("delete from db.`spark-upgraded` where id in (1, 12)")
    sql("alter table db.`spark-upgraded` set tblproperties ('format-version'='3')")
    sql("delete from db.`spark-upgraded` where id in (2, 3)")


def refs(sql: Callable[[str], object]) -> None:
    """Tags, a branch that went its own way, a commit without rows, versions that have expired."""
    name = "db.`spark-refs`"
    sql(f"create table {name} (id bigint) using iceberg tblproperties ('format-version'='2')")
    sql(f"insert into {name} values (1)")
    sql(f"insert into {name} values (2)")
    sql(f"alter table {name} create tag `release-1`")
    sql(f"insert into {name} select id from range(0)")
    sql(f"alter table {name} create branch `try/it`")
    sql(f"insert into {name}.`branch_try/it` values (30)")
    sql(f"insert into {name} values (3)")
    sql(f"delete from {name} where id = 2")
    sql(f"insert overwrite {name} values (4)")
    sql(
        "call golden.system.expire_snapshots(table => 'db.`spark-refs`', "
        "older_than => timestamp'2100-01-01 00:00:00', retain_last => 2)"
    )


def migrated(sql: Callable[[str], object], spark: SparkSession, folder: Path) -> None:
    """Files of a folder of Hive's style: they lack the partition's column, and ids; a name mapping has these."""
    name = "db.`spark-migrated`"
    sql(f"""create table {name} (id bigint, text string, part string, n int) using iceberg partitioned by (part, n)
        tblproperties ('format-version'='2')""")
    source = folder / "db" / "spark-migrated" / "old"
    rows = (
        "values (1L, 'a', 'x', 1), (2L, null, 'x', 2), (3L, 'c', 'y z', 1), (4L, 'd', null, 1) as t(id, text, part, n)"
    )
    old = spark.sql(f"select * from {rows}").coalesce(1)
    old.write.partitionBy("part", "n").parquet(str(source))
    sql(f"call golden.system.add_files(table => 'db.`spark-migrated`', source_table => '`parquet`.`{source}`')")
    sql(f"insert into {name} values (5, 'e', 'x', 3)")
    sql(f"alter table {name} rename column text to words")
    sql(f"alter table {name} rename column part to section")
    sql(f"insert into {name} values (6, 'f', 'x', 4)")


def plain(value: object) -> object:
    """A value as generate.py's plain has it."""
    if isinstance(value, Row):
        return {k: plain(v) for k, v in value.asDict().items()}
    if isinstance(value, dict):
        return [[plain(k), plain(v)] for k, v in value.items()]
    if isinstance(value, list):
        return [plain(v) for v in value]
    return generate.plain(bytes(value) if isinstance(value, bytearray) else value)


def read(spark: SparkSession, table: Path) -> dict[str, list[object]]:
    """The rows of each version."""
    out = {}
    for row in spark.sql(f"select snapshot_id from db.`{table.name}`.snapshots").collect():
        of = spark.read.option("snapshot-id", row.snapshot_id).format("iceberg").load(str(table))
        zoned = [f.name for f in of.schema.fields if f.dataType.typeName() == "timestamp"]
        scales = {
            f.name: Decimal(1).scaleb(-f.dataType.scale) for f in of.schema.fields if hasattr(f.dataType, "scale")
        }
        rows = [r.asDict() for r in of.collect()]
        for r in rows:
            r |= {name: r[name].replace(tzinfo=UTC) for name in zoned if r[name]}
            r |= {
                name: r[name].quantize(s, context=Context(prec=38)) for name, s in scales.items() if r[name] is not None
            }
        out[str(row.snapshot_id)] = [{k: plain(v) for k, v in r.items()} for r in rows]
    return out


def main(folder: Path) -> None:
    """Writes the tables, and beside them what Spark reads."""
    os.environ["TZ"] = "UTC"
    spark = session(folder)
    spark.sparkContext.setLogLevel("ERROR")
    wanted = set(sys.argv[2:])
    for make in (types, evolved, partitioned, positions, vectors, upgraded, refs, migrated):
        if wanted and make.__name__ not in wanted:
            continue
        if make is migrated:
            make(spark.sql, spark, folder)
        else:
            make(spark.sql)
        table = folder / "db" / f"spark-{make.__name__}"
        (folder / f"{table.name}.json").write_text(json.dumps(read(spark, table)))
        print(table.name, flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
