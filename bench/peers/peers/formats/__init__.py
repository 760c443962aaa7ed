"""Penstock beside others on files that are no Parquet: `python -m peers.formats`."""
