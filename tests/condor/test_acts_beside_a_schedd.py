"""condor_rm and its kin over a real schedd, and ours: every pair of selectors."""

import io
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from fetchwork.condor import commands
from fetchwork.condor.invocation import Invocation
from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import CondorRoot
from fetchwork.pool.postgres import PostgresServer
from fetchwork.queue.session import Session
from tests.condor.sides import CONFIG, HOST, Sides
from tests.support.direct_queue import DirectQueue
from tests.support.kept import kept_database

COMMANDS = ("condor_rm", "condor_hold", "condor_release", "condor_vacate_job")
SELECTORS = [
    ["A.0"],
    ["A.1"],
    ["A.9"],
    ["A"],
    ["ME"],
    ["-constraint", "ProcId == 0"],
    ["-constraint", "ProcId == 1"],
    ["-held"],
    ["-all"],
]
CASES = [
    *SELECTORS,
    *([*one, *other] for one, other in itertools.combinations_with_replacement(SELECTORS, 2)),
    *(["-all", *other] for other in SELECTORS[:-1]),
    ["-totals", "-constraint", "ClusterId == A"],
    ["no", "body"],
]
OF_ONE_COMMAND = [
    ["condor_rm", "-forcex", "A.0"],
    ["condor_rm", "-forcex", "A"],
    ["condor_vacate_job", "-fast", "A.0", "A.1"],
    ["condor_vacate_job", "-fast", "A"],
    # of jobs that don't run
    *(
        [command, *more]
        for command in ("condor_suspend", "condor_continue")
        for more in (["A.0", "A.9"], ["A"], ["ME"])
    ),
]


@pytest.fixture(scope="module")
def sides(root: CondorRoot, make_pool: Callable[..., PersonalPool]) -> Sides:
    # 23.9 denies by CLAIMTOBE the requests of its own commands
    config = CONFIG.replace("METHODS = CLAIMTOBE", "METHODS = FS, CLAIMTOBE")
    pool = make_pool(slots=2, config=config, host=HOST)
    return Sides(pool, Path(__file__).parent / "beside_schedd.py")


class Ours:
    """Runs our commands, as alice, on the same jobs as the program over the schedd."""

    def __init__(self, session: Session, queue: DirectQueue) -> None:
        self._session, self._queue = session, queue
        # a word's plain number belongs to no cluster
        queue.submit()

    def answer(self, words: list[str]) -> list[object]:
        """Exit status, output, and the jobs that were changed."""
        running = words[0] == "condor_vacate_job"
        clusters = self._jobs(running)
        before = self._states(clusters)
        meant = [
            re.sub(r"\b[AB]\b", lambda found: clusters[found[0]], word).replace("ME", "alice")
            for word in words
        ]
        out, err = io.BytesIO(), io.BytesIO()
        status = commands.run(
            Invocation(meant, io.BytesIO(), out, err, lambda: self._session, environment={}, user="alice")
        )
        after = self._states(clusters)
        acted = [job for job in before if after.get(job) != before[job]]
        texts = [out.getvalue().decode(), err.getvalue().decode().partition("Usage:")[0]]
        for name, number in clusters.items():
            texts = [re.sub(rf"(?<![.\d]){number}(?!\d)", name, text) for text in texts]
        return [status, *(text.replace("alice", "ME") for text in texts), sorted(acted)]

    def _jobs(self, running: bool) -> dict[str, str]:
        queue = self._queue
        self._session.perform("change_jobs", action="Remove", spec="true")
        made = {name: queue.submit_many([{}] * number) for name, number in (("A", 3), ("B", 2))}
        if running:
            queue.act("hold", made["A"][0], made["A"][2], made["B"][0])
            assert {queue.started("slot1@h1").job, queue.started("slot2@h1").job} == {
                made["A"][1],
                made["B"][1],
            }
            queue.act("release", made["A"][2])
        else:
            queue.act("hold", made["A"][0], made["B"][0])
        return {name: jobs[0].partition(".")[0] for name, jobs in made.items()}

    def _states(self, clusters: dict[str, str]) -> dict[str, object]:
        named = {number: name for name, number in clusters.items()}
        rows = self._queue.rows(
            "SELECT j.cluster_id, j.proc_id, j.job_status, r.end_requested FROM fetchwork.job AS j"
            " LEFT JOIN fetchwork.run AS r USING (cluster_id, proc_id)"
        )
        return {
            f"{named[str(cluster)]}.{proc}": state for cluster, proc, *state in rows if str(cluster) in named
        }


@pytest.fixture
def ours(postgres: PostgresServer) -> Iterator[Ours]:
    conninfo = kept_database(postgres)
    with Session(conninfo) as session, psycopg.connect(conninfo, autocommit=True) as connection:
        yield Ours(session, DirectQueue(connection))


@pytest.mark.newest
@pytest.mark.parametrize("command", COMMANDS)
def test_each_pair_of_selectors_acts_on_the_same_jobs_as_over_a_schedd(
    sides: Sides, ours: Ours, command: str, suite: str
) -> None:
    cases = [[command, *case] for case in CASES] + [case for case in OF_ONE_COMMAND if case[0] == command]
    if suite == "trixie":
        # an option of later versions
        cases = [case for case in cases if "-held" not in case]
    answers = zip(cases, map(ours.answer, cases), sides.theirs("selectors", cases), strict=True)
    different = [answer for answer in answers if answer[1] != answer[2]]
    print(*different, sep="\n")
    assert different == []


@pytest.mark.newest
def test_held_leaves_other_jobs_alone_where_htcondor_does_not(sides: Sides, ours: Ours, suite: str) -> None:
    if suite == "trixie":
        pytest.skip("it has no -held")
    cases = [
        ["condor_rm", "-held", "A.1", "A.0"],
        ["condor_rm", "-held", "-constraint", "ProcId == 1 || false"],
    ]
    assert [answer[3] for answer in sides.theirs("selectors", cases)] == [["A.0", "A.1"], ["A.1", "B.1"]]
    assert [ours.answer(case)[3] for case in cases] == [["A.0"], []]
