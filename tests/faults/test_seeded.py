"""Runs in which many things break, each chosen by its seed. ``make soak`` plays hundreds; here a few.

``pytest tests/faults/test_seeded.py --seed N`` plays one of them again; ``--all`` plays some more.
"""

import os
from pathlib import Path

import pytest

from fetchwork.pool.postgres import PostgresServer
from tests.faults.conftest import new_database
from tests.faults.seeded import play

JOBS = 120
FAULTS = 6
SEEDS = (1,)
MORE_SEEDS = range(2, 24)
#: of runs whose jobs run in chains; `make test` plays a few of the first ones
CHAIN_SEEDS = range(1, 9)
MORE_CHAIN_SEEDS = range(9, 51)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The seeds, or the requested one."""
    asked = metafunc.config.getoption("--seed", None)
    chains = metafunc.function is test_chains_lose_no_job_and_run_none_twice
    few, many = (CHAIN_SEEDS, MORE_CHAIN_SEEDS) if chains else (SEEDS, MORE_SEEDS)
    more = [pytest.param(seed, marks=pytest.mark.all) for seed in many]
    metafunc.parametrize("seed", [*few, *more] if asked is None else [asked])


async def test_no_job_is_lost_or_run_twice(fragile_server: PostgresServer, tmp_path: Path, seed: int) -> None:
    result = await play(fragile_server, new_database(fragile_server), tmp_path, seed, JOBS, FAULTS)
    told = "\n".join([f"seed {seed}", *result.plan])
    assert result.faults == [], told
    assert result.counts["started"] >= JOBS * 0.9, told


@pytest.mark.skipif(os.geteuid() != 0, reason="an agent that is not root begins no chains")
async def test_chains_lose_no_job_and_run_none_twice(
    fragile_server: PostgresServer, tmp_path: Path, seed: int
) -> None:
    result = await play(
        fragile_server, new_database(fragile_server), tmp_path, seed, JOBS, FAULTS, chains=True
    )
    told = "\n".join([f"seed {seed}", *result.plan])
    assert result.faults == [], told
    assert result.counts["started"] >= JOBS * 0.9, told
    assert result.counts["chain_next exit"] >= JOBS * 0.5, told
