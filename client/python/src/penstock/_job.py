"""The name of a loader's session: what makes a job find its own session again, and no other job.

An id comes from the job, never from the spec, so that two jobs with equal specs read all rows each.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping


def run_id(environ: Mapping[str, str] = os.environ) -> str | None:
    """The id that a launcher gave the job: the same on all ranks and after a restart. None if there is none."""
    explicit = environ.get("PENSTOCK_RUN_ID")
    if explicit:
        return explicit
    torchrun = environ.get("TORCHELASTIC_RUN_ID", "")
    if torchrun and torchrun != "none":  # which is torchrun's default, the same for all jobs
        return torchrun
    return indexed_job(environ) or environ.get("SLURM_JOB_ID") or None


def indexed_job(environ: Mapping[str, str] = os.environ) -> str | None:
    """The Kubernetes indexed Job that this process is a pod of."""
    index, host = environ.get("JOB_COMPLETION_INDEX"), environ.get("HOSTNAME", "")
    return host.removesuffix(f"-{index}") if index and host.endswith(f"-{index}") else None


def session_id(session: str | None, name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The id that the user or the job's launcher gives a loader's session; None where it must be made up."""
    if session:
        return session
    run = run_id(environ)
    return f"{run}/{name}" if run else None


def unique_id(name: str) -> str:
    """An id that no other session has."""
    return f"{secrets.token_hex(8)}/{name}"
