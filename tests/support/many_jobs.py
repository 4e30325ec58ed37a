"""For queues of a million jobs: HTCondor's limits of an owner's jobs are lower."""

import psycopg


def unlimited(conninfo: str) -> None:
    """Let an owner have, and submit, as many jobs as a benchmark wants."""
    with psycopg.connect(conninfo) as connection:
        for name in ("max_jobs_per_owner", "max_jobs_per_submission"):
            connection.execute("SELECT fetchwork.set_setting(%s, 1e9)", [name])
