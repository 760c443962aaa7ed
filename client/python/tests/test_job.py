"""A session's id comes from the job."""

from __future__ import annotations

import pytest

from penstock import _job


@pytest.mark.parametrize(
    ("environ", "want"),
    [
        ({}, None),
        ({"PENSTOCK_RUN_ID": "a", "TORCHELASTIC_RUN_ID": "b", "SLURM_JOB_ID": "7"}, "a/train"),
        ({"TORCHELASTIC_RUN_ID": "b", "SLURM_JOB_ID": "7"}, "b/train"),
        ({"TORCHELASTIC_RUN_ID": "none"}, None),
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "7"}, "7/train"),
        ({"JOB_COMPLETION_INDEX": "3", "HOSTNAME": "ctr-2026-3"}, "ctr-2026/train"),
        ({"JOB_COMPLETION_INDEX": "3", "HOSTNAME": "elsewhere"}, None),
        ({"HOSTNAME": "ctr-2026-3"}, None),
    ],
)
def test_the_run_id(environ: dict[str, str], want: str | None) -> None:
    assert _job.session_id(None, "train", environ) == want
    assert _job.session_id("mine", "train", environ) == "mine"


def test_made_up_ids_differ() -> None:
    assert _job.unique_id("train") != _job.unique_id("train")
