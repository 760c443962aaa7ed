"""Counts the rows of a ledger against the dataset with DuckDB, and prints what it found as JSON.

usage: recount.py LEDGER.parquet DATASET_FOLDER EPOCHS LEDGER_OF_THE_UNDISTURBED_JOB.parquet|"" full|"" functions|""
"""

import json
import sys

import duckdb

ledger, dataset, epochs, undisturbed = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
read = "from rows"
if sys.argv[5] == "full":  # as the spec has it
    read = "select * replace (greatest(least(x, 500), -500) as x, ids[1:4] as ids) from rows where x >= -800"
if sys.argv[6] == "functions":  # as functions.py has it
    read = f"select * replace (x * 0.5::float as x, list_prepend(key, ids) as ids) from ({read})"
db = duckdb.connect()
db.execute("set enable_progress_bar = false")  # it is printed among the results
db.execute(f"create view ledger as from read_parquet('{ledger}')")
db.execute(
    f"""create table source as
    with rows as (
        select dense_rank() over (order by filename) - 1 as file, file_row_number as row, key, x, ids, blob
        from read_parquet('{dataset}/*.parquet', filename = true, file_row_number = true)
    )
    select file, row, key, coalesce(x, 'nan'::float) as x,
        len(ids) as ids, coalesce(list_reduce(list_prepend(0::bigint, ids), lambda a, b: xor(a, b)), 0) as ids_xor,
        ('0x' || md5(blob)[1:15])::bigint as blob_md5
    from ({read})"""
)
db.execute(f"create view wanted as select epoch, file, row from range({epochs}) e(epoch), source")
db.execute("create table counted as select epoch, file, row, count(*) as n from ledger group by all")


def found(query):
    (total,) = db.execute(f"select count(*) from ({query})").fetchone()
    examples = db.execute(f"from ({query}) order by all limit 10").fetchall()
    return {"count": total, "examples": [[str(v) for v in row] for row in examples]}


def sequence(path):
    return f"""select epoch, file, row, step, rank, row_number() over (order by step, rank, file_row_number) as place
        from read_parquet('{path}', file_row_number = true)"""


displaced = "select 1 where false"
if undisturbed:
    displaced = f"""select l.epoch, l.file, l.row, l.step, l.rank
        from ({sequence(ledger)}) l left join ({sequence(undisturbed)}) u using (place)
        where (l.epoch, l.file, l.row, l.step) is distinct from (u.epoch, u.file, u.row, u.step)"""

print(
    json.dumps(
        {
            "expected": db.execute("select count(*) from wanted").fetchone()[0],
            "handed_over": db.execute("select count(*) from ledger").fetchone()[0],
            "lost": found("from wanted anti join counted using (epoch, file, row)"),
            "doubled": found(
                "select epoch, file, row, step, rank from ledger semi join (from counted where n > 1) using (epoch, file, row)"
            )
            | {"count": db.execute("select coalesce(sum(n - 1), 0)::bigint from counted").fetchone()[0]},
            "invented": found(
                "select epoch, file, row, step, rank from ledger anti join wanted using (epoch, file, row)"
            ),
            "displaced": found(displaced),
            "altered": found(
                """select epoch, file, row, step, rank from ledger l join source s using (file, row)
                where (l.key, l.x, l.ids, l.ids_xor, l.blob_md5) is distinct from (s.key, s.x, s.ids, s.ids_xor, s.blob_md5)"""
            ),
        }
    )
)
