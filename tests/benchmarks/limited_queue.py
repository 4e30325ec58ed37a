"""Claims with accounting groups, concurrency limits and limits on starts, beside the same claims without any.

Two databases of one server have the same jobs, of DiracX's shape (dirac_queue.py), and the same running jobs
elsewhere. In one of them each submitter's group has a quota without surplus, and each job names one
concurrency limit, or two; some of these limit starts, too. None of them is ever reached: the ratio is the
cost of counting.
"""

import statistics
from pathlib import Path

from fetchwork.pool.postgres import PostgresServer
from tests.benchmarks import frame
from tests.benchmarks.dirac_queue import DiracQueue, claims_per_second

#: groups, and as many concurrency limits
LIMITS = 50
#: of the concurrency limits, those with a limit on starts
START_LIMITS = 10
# of each cluster of 100 jobs, so many run on another host from the beginning; nothing ends them
RUNNING = """
INSERT INTO fetchwork.host (name) VALUES ('elsewhere');

WITH gone AS (
    DELETE FROM fetchwork.waiting WHERE proc_id < {of_cluster}
    RETURNING cluster_id, proc_id, autocluster_id
)
INSERT INTO fetchwork.run (
    cluster_id, proc_id, autocluster_id, host_id, slot, state, job_status, started_at, lease, deadline
)
SELECT
    cluster_id, proc_id, autocluster_id, (SELECT host_id FROM fetchwork.host WHERE name = 'elsewhere'),
    format('slot1_%s_%s@elsewhere', cluster_id, proc_id), 'running', 2, now(), '10 days', now() + '10 days'
FROM gone;

INSERT INTO fetchwork.tally (autocluster_id, batch_id, jobs, held, completed, removed)
SELECT autocluster_id, 0, count(*), 0, 0, 0 FROM fetchwork.job GROUP BY autocluster_id;

ANALYZE;
"""
NAME_LIMITS = """
UPDATE fetchwork.autocluster AS a
SET concurrency_limits = n.names, ad = a.ad || jsonb_build_object('ConcurrencyLimits', n.names)
FROM (
    SELECT
        autocluster_id,
        format('license%s', autocluster_id % {limits})
            || CASE WHEN autocluster_id % 5 = 0 THEN format(',license%s:2', autocluster_id * 7 % {limits})
                ELSE '' END AS names
    FROM fetchwork.autocluster
) AS n
WHERE n.autocluster_id = a.autocluster_id;

SELECT fetchwork.set_group('group' || n, '{{"quota": 100000}}') FROM generate_series(0, {limits} - 1) AS n;

SELECT fetchwork.set_limit('license' || n, 1000000) FROM generate_series(0, {limits} - 1) AS n;

SELECT fetchwork.set_starts('limit', 'license' || n, 100000, 1) FROM generate_series(0, {starts} - 1) AS n;
"""


def _queue(conninfo: str, jobs: int, *, limited: bool) -> DiracQueue:
    queue = DiracQueue(conninfo, submitters=LIMITS)
    if limited:
        queue.run(NAME_LIMITS, limits=LIMITS, starts=START_LIMITS)
    queue.grow(jobs)
    queue.run(RUNNING, of_cluster=5)
    return queue


def compare(
    server: PostgresServer,
    directory: Path,
    *,
    jobs: int,
    agents: int,
    clients: int,
    rounds: int,
    seconds: float,
) -> float:
    """Claims per second with limits over those without: the median of rounds that measure both in turn."""
    queues = {
        limited: _queue(
            frame.new_database(server, "limited" if limited else "unlimited"), jobs, limited=limited
        )
        for limited in (False, True)
    }
    ratios = []
    try:
        for number in range(rounds):
            rates = {}
            for limited in (False, True) if number % 2 == 0 else (True, False):
                print(f"{'with' if limited else 'without'} limits:", flush=True)
                rates[limited] = claims_per_second(
                    queues[limited], directory, agents=agents, clients=clients, seconds=seconds
                )
            ratios.append(rates[True] / rates[False])
    finally:
        for queue in queues.values():
            queue.close()
    print(f"ratios: {' '.join(f'{ratio:.3f}' for ratio in ratios)}", flush=True)
    return statistics.median(ratios)
