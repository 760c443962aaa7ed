"""A trainer that answers each line of its input with one batch: its rows as (epoch, file, row), or that there are no more.

    trainer.py SPEC SESSION RANK WORLD MASTERS TOKEN_FILE CA
"""

import json
import logging
import sys

import penstock


def read(loader):
    """All epochs' batches."""
    while True:
        try:
            batches = iter(loader)
        except penstock.errors.EpochsExhausted:
            return
        yield from batches


spec, session, rank, world, masters, token_file, ca = sys.argv[1:]
logging.basicConfig(level=logging.INFO, stream=sys.stderr)
with penstock.DataLoader(
    spec=spec, session=session, rank=int(rank), world_size=int(world), master=masters.split(","), format="numpy",
    connection=penstock.Connection(token_file=token_file, ca=ca, server_name="penstock"), budget=1 << 18,
) as loader:  # fmt: skip
    batches = read(loader)
    for _ in sys.stdin:
        batch = next(batches, None)
        if batch is None:
            answer = {"End": True}
        else:
            answer = {"Rows": [[batch.epoch, int(f), int(r)] for f, r in zip(batch.files, batch.rows, strict=True)]}
        print(json.dumps(answer), flush=True)
