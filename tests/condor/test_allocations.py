"""The slots that a real negotiator allocates to accounting groups, beside those of ``allocations``.

Both get the same tree, quotas and demand. The negotiator logs its figures before it gives slots to any job:
the pool's slots start nothing, and ads of submitters, which else a schedd sends, stand for the demand.
"""

import re
from collections.abc import Callable
from types import SimpleNamespace

import psycopg
import pytest
from psycopg.types.json import Jsonb

from fetchwork.matching.groups import allocations
from fetchwork.pool import PersonalPool
from tests.benchmarks.group_trees import NONE, SLOTS, Group, settings, submit, tree
from tests.support.direct_queue import DirectQueue
from tests.support.waiting import until

CONFIG = """
DAEMON_LIST = $(DAEMON_LIST) NEGOTIATOR
START = False
NEGOTIATOR_DEBUG = D_FULLDEBUG
NEGOTIATOR_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
"""
#: no schedd listens there, so no slot is given away
SUBMITTER = """MyType = "Submitter"
Name = "{name}@pool"
ScheddName = "schedd"
Machine = "schedd"
MyAddress = "<127.0.0.1:9>"
ScheddIpAddr = "<127.0.0.1:9>"
IdleJobs = {jobs}
WeightedIdleJobs = {jobs}
RunningJobs = 0
WeightedRunningJobs = 0
HeldJobs = 0

"""
ALL_SUBMITTERS = 'MyType = "Query"\nTargetType = "Submitter"\nRequirements = true\n'
TREES = 10
FIGURES = re.compile(
    r"group quotas: group= (\S+)  quota= (\S+)  requested= (\S+)  allocated= (\S+)  unallocated= "
)

#: of a group: its own quota, the slots that its users ask for, those that it is allocated
Figures = dict[str, tuple[float, float, float]]
#: the figures of a group: the negotiator's, and ours
Both = dict[str, tuple[tuple[float, ...] | None, tuple[float, ...] | None]]


class Negotiator:
    """The negotiator of a pool."""

    def __init__(self, pool: PersonalPool) -> None:
        self._pool = pool
        self._log = pool.condor.directory / "log/NegotiatorLog"

    def set(self, groups: list[Group]) -> None:
        """Let it have this tree and its demand."""
        ads = [
            SUBMITTER.format(name=user if group.name == NONE else f"{group.name}.{user}", jobs=jobs)
            for group in groups
            for user, jobs in group.jobs.items()
        ]
        self._tell("INVALIDATE_SUBMITTOR_ADS", ALL_SUBMITTERS)
        (self._pool.condor.directory / "config.local").write_text(settings(groups))
        assert self._pool.run_command(["condor_reconfig", "-negotiator"]).returncode == 0
        self._tell("UPDATE_SUBMITTOR_AD", "".join(ads), "-multiple")

    def last_figures(self) -> Figures:
        """The figures of the last cycle that has logged them all."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        for cycle in reversed(text.split("Started Negotiation Cycle")[1:]):
            # further rounds allocate what the first could not give away
            first_round, has_begun, _ = cycle.partition("entering RR iteration")
            if has_begun:
                found = FIGURES.findall(first_round)
                return {
                    name: (float(quota), float(asked), float(slots)) for name, quota, asked, slots in found
                }
        return {}

    def allocates(self, ours: Figures, which: str) -> None:
        """Wait until it has these figures, or fail."""

        def both() -> Both:
            theirs = self.last_figures()
            if NONE not in ours:
                theirs.pop(NONE, None)
            return {name: (theirs.get(name), ours.get(name)) for name in sorted({*theirs, *ours})}

        def agree() -> bool:
            # the log has six digits
            return all(theirs == pytest.approx(mine, rel=2e-5, abs=1e-4) for theirs, mine in both().values())

        until(agree, lambda: f"{which}: the negotiator's figures, and ours: {both()}", every_s=0.2)

    def _tell(self, command: str, ads: str, *options: str) -> None:
        file = self._pool.directory / "tmp/ads"
        file.write_text(ads)
        file.chmod(0o644)
        told = self._pool.run_command(["condor_advertise", *options, command, f"/tmp/{file.name}"])
        assert told.returncode == 0, told.stdout + told.stderr


@pytest.fixture
def negotiator(make_pool: Callable[..., PersonalPool]) -> Negotiator:
    pool = make_pool(slots=SLOTS, partitionable=True, config=CONFIG, host={"slots": {"fetched_only": False}})
    return Negotiator(pool)


def our_figures(conninfo: str, groups: list[Group]) -> Figures:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        queue = DirectQueue(connection)
        host = queue.host()
        slot = {"name": "slot1@h1", "fetched_at": 0, "weight": SLOTS}
        queue.call("report_slots", host_id=host, slots=Jsonb([slot]))
        submit(connection, groups)
        rows = [SimpleNamespace(**row) for row in queue.call("read_groups", host_id=host, anew=True)]
    allocated = allocations(rows)
    return {row.name: (row.quota, row.requested, allocated[row.name]) for row in rows}


@pytest.mark.newest
def test_slots_are_allocated_as_by_a_negotiator(
    negotiator: Negotiator, new_database: Callable[[], str]
) -> None:
    for seed in range(1, TREES + 1):
        groups = tree(seed, bounded=seed % 2 == 0)
        negotiator.set(groups)
        ours = our_figures(new_database(), groups)
        if any(group.autoregroup for group in groups):
            # there its "<none>" has the whole pool, for all users that compete again
            del ours[NONE]
        negotiator.allocates(ours, f"tree {seed}")
