"""Checkpoints at a destination, as runs report them."""

import json
from collections.abc import Sequence
from typing import Any

from tests.support.direct_queue import Claimed, DirectQueue


def called(slots: DirectQueue, run: Claimed) -> str:
    """The directory of a job's checkpoints."""
    name: str = slots.value(
        "SELECT fetchwork.global_job_id(cluster_id, proc_id, q_date) FROM fetchwork.job"
        " WHERE fetchwork.job_id(cluster_id, proc_id) = %s",
        run.job,
    )
    return name.replace("#", "_")


def save(slots: DirectQueue, run: Claimed, number: int, base: str, names: Sequence[str]) -> None:
    manifest: list[dict[str, Any]] = [{"name": name, "size": 1, "url": base + name} for name in names]
    with slots.connection.cursor() as cursor:
        cursor.execute(
            "SELECT fetchwork.keep_outputs(run_id => %s, token => %s, manifest => %s::jsonb, spool => true,"
            " checkpoint => %s)",
            [run.run_id, run.token, json.dumps(manifest), number],
        )
        assert cursor.fetchone() == ("kept",)
