"""A DAG of many nodes while condor_dagman, access point, agent and PostgreSQL are killed."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable

import pytest

from fetchwork.pool import PersonalPool
from tests.dag.sides import Dag, Point, Queue, dagman
from tests.support.waiting import until

DEPTH = 10
FAULTS = ("condor_dagman", "access point", "agent", "PostgreSQL")


def _text(width: int) -> str:
    lines = [f"JOB N{row}_{column} node.sub" for row in range(DEPTH) for column in range(width)]
    for row in range(1, DEPTH):
        for column in range(width):
            other = (column + row) % width
            lines.append(f"PARENT N{row - 1}_{column} N{row - 1}_{other} CHILD N{row}_{column}")
    return "\n".join([*lines, ""])


def _strike(fault: str, pool: PersonalPool, point: Point, dag: Dag) -> None:
    if fault == "condor_dagman":
        dagman(dag).signal(signal.SIGKILL)
    elif fault == "access point":
        point.kill()
        point.start()
    elif fault == "agent":
        until(lambda: pool.processes()["agent"] is not None, "an agent")
        agent = pool.processes()["agent"]
        assert agent is not None
        os.kill(agent, signal.SIGKILL)
    else:
        pool.postgres.crash()
        pool.postgres.start()


@pytest.mark.parametrize(
    ("seed", "width"), [(1, 10), *(pytest.param(seed, 20, marks=pytest.mark.all) for seed in (1, 2, 3, 4))]
)
def test_every_node_completes_once_whatever_is_killed(
    pool: PersonalPool, point: Point, queue: Queue, seed: int, width: int
) -> None:
    chance = random.Random(seed)
    faults = [*FAULTS, *chance.choices(FAULTS, k=2)]
    chance.shuffle(faults)
    dag = queue.start(_text(width))
    for number, fault in enumerate(faults, 1):
        enough = number * width * DEPTH // (len(faults) + 2) + chance.randrange(10)
        until(_noted(dag, enough), lambda: dag.tail, every_s=0.05)
        _strike(fault, pool, point, dag)
    assert dag.wait() == 0, (faults, dag.tail)
    noted = dag.noted()
    names = {f"N{row}_{column}" for row in range(DEPTH) for column in range(width)}
    assert Counter(noted) == Counter(names)
    assert Counter(queue.nodes(dag.cluster)) == Counter(names)
    rows = [int(name[1:].partition("_")[0]) for name in noted]
    positions = {name: position for position, name in enumerate(noted)}
    for row in range(1, DEPTH):
        for column in range(width):
            assert positions[f"N{row - 1}_{column}"] < positions[f"N{row}_{column}"], (faults, rows)


def _noted(dag: Dag, number: int) -> Callable[[], bool]:
    return lambda: len(dag.noted()) >= number
