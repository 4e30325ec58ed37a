"""Two hosts in network namespaces of their own; the link between one of them and the database goes down.

No connection is refused or closed then: packets get lost, as with a pulled cable.
"""

import ipaddress
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from signal import SIGTERM

import pytest

from tests.faults.harness import Pool, SimulatedHost

LEASE_S = 6
NETWORKS = int(ipaddress.ip_address("10.213.0.0"))
_numbers = itertools.count(1)


class Network:
    """A namespace with one link to here; PostgreSQL's port is reached through it."""

    def __init__(self, number: int) -> None:
        # other users may run these tests on the same machine at the same time
        number += 4 * os.getpid()
        self.name = f"fwtest{number}"
        self._here, self._there = f"fwh{number}", f"fwn{number}"
        # one of the 16 384 networks of four addresses
        _, here, there, _ = ipaddress.ip_network((NETWORKS + 4 * (number % 16_384), 30))
        self.address = str(here)
        _ip("netns", "add", self.name)
        _ip("link", "add", self._here, "type", "veth", "peer", "name", self._there, "netns", self.name)
        _ip("addr", "add", f"{here}/30", "dev", self._here)
        _ip("link", "set", self._here, "up")
        _ip("-n", self.name, "addr", "add", f"{there}/30", "dev", self._there)
        _ip("-n", self.name, "link", "set", self._there, "up")
        _ip("-n", self.name, "link", "set", "lo", "up")

    def pull_the_cable(self) -> None:
        _ip("-n", self.name, "link", "set", self._there, "down")

    def plug_it_in(self) -> None:
        _ip("-n", self.name, "link", "set", self._there, "up")

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@pytest.fixture
def networks() -> Iterator[list[Network]]:
    made: list[Network] = []
    if shutil.which("ip") is None:
        pytest.skip("no command 'ip': no network namespaces")
    try:
        made += [Network(next(_numbers)) for _ in range(2)]
    except subprocess.CalledProcessError as error:
        pytest.skip(f"cannot make network namespaces: {error.stderr.strip()}")
    yield made
    for network in made:
        network.remove()


async def _add_host(pool: Pool, network: Network, name: str) -> SimulatedHost:
    wrapper = ["ip", "netns", "exec", network.name]
    return await pool.add_host(name, slots=2, address=network.address, wrapper=wrapper)


async def test_host_behind_a_pulled_cable_loses_its_jobs_to_the_other(
    pool: Pool, networks: list[Network]
) -> None:
    pool.agent = {"lease_s": LEASE_S}
    first = await _add_host(pool, networks[0], "first")
    pool.submit([300.0, 300.0])
    await pool.until_running(2)
    await pool.until(lambda: pool.value("SELECT count(*) FROM fetchwork.job WHERE job_status = 2") == 2)
    await _add_host(pool, networks[1], "second")
    networks[0].pull_the_cable()
    starter = first.host.slots[0].starter
    assert starter is not None
    starter.signal_job(SIGTERM)
    # one ends while cut off, the other is given away when the lease is over and ended on its first host
    await pool.until(lambda: pool.ledger.counts["started"] == 4)
    await pool.until(lambda: pool.ledger.running <= 2)
    assert {run.host for run in pool.ledger.executions if run.ended is None} == {"second"}
    networks[0].plug_it_in()
    await pool.until(lambda: not pool.left_in_spool())
    pool.value("SELECT count(*) FROM fetchwork.remove('{1}'::text[])")
    await pool.until_done()
    assert pool.faults() == []
    assert first.agent.running
    late = "SELECT late_report ->> 'ExitSignal' FROM fetchwork.run_history WHERE late_report ? 'ExitSignal'"
    assert (str(int(SIGTERM)),) in pool.rows(late)
