"""Trains on whatever lies in s3://data/clicks/: two ranks, each with its share of the rows, every row once."""

import os

import penstock

loader = penstock.DataLoader(
    "s3://data/clicks/",
    features=penstock.label("label") + penstock.dense("int_*") + penstock.sparse("cat_*"),
    transforms=[penstock.fill_null("int_*", 0), penstock.clamp("int_*", min=0), penstock.log1p("int_*"),
                penstock.sigrid_hash("cat_*", salt=0, max=1_000_000)],
    batch_size=1024,
    last_batch="uneven",  # the ranks do not wait for each other
    epochs=1,
    shuffle=True,
    seed=1,
    master="penstock-master.penstock:7070",
    rank=int(os.environ["JOB_COMPLETION_INDEX"]),
    world_size=2,
)
rows = 0
for batch in loader:
    rows += len(batch.label)  # train here
print(rows, "rows;", loader.stats().verdict)
