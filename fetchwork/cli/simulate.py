"""``fetchwork simulate``: a load test of agents and database, without HTCondor."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork.cli import options, output
from fetchwork.errors import ConfigError
from fetchwork.simulate import BEHAVIOURS, Clock, Host, Ledger, SlotSpec, Timing
from fetchwork.simulate.hookcalls import allow_connections, connect_to

if TYPE_CHECKING:
    from fetchwork.config import HostConfig
    from fetchwork.simulate.agents import AgentProcess

#: agents that start at once: each takes a second or two of CPU until it answers
STARTING = 4

EXAMPLE = """\b
Example: 4 hosts with 16 slots each, for a minute, on jobs that sleep ten times faster
  fetchwork submit sleep.sub
  fetchwork simulate --hosts 4 --slots 16 --seconds 60 --scale 10
"""


@click.command(epilog=EXAMPLE)
@options.host_file_option
@click.option("--keyword", "-k", help="The keyword of all slots.  [default: the only one of the host file]")
@click.option("--slots", type=click.IntRange(1, 10_000), default=8, show_default=True, help="Slots per host.")
@click.option(
    "--hosts",
    type=click.IntRange(1, 1000),
    help="Hosts, each with an agent of its own that is started here.  [default: this host, and its agent]",
)
@click.option(
    "--partitionable",
    is_flag=True,
    help="One partitionable slot per host, with --slots cores.",
)
@click.option("--memory", type=click.IntRange(1), default=1024, show_default=True, help="MiB for each core.")
@click.option(
    "--htcondor",
    type=click.Choice(sorted(BEHAVIOURS)),
    default="25.14",
    show_default=True,
    help="The HTCondor version to simulate.",
)
@click.option(
    "--seconds", type=click.FloatRange(0.1), help="Stop after this time.  [default: at --jobs, or ^C]"
)
@click.option("--jobs", type=click.IntRange(1), help="Stop when this many jobs have ended.")
@click.option(
    "--scale",
    type=click.FloatRange(0.01, 1000),
    default=1.0,
    show_default=True,
    help="The speed of simulated time, in multiples of the clock's.",
)
@options.json_option
def cli(
    file: Path | None,
    keyword: str | None,
    slots: int,
    hosts: int | None,
    partitionable: bool,
    memory: int,
    htcondor: str,
    seconds: float | None,
    jobs: int | None,
    scale: float,
    as_json: bool,
) -> None:
    """Simulate the startds and starters of many slots, for load tests.

    The slots fetch from the queue as HTCondor's would, through the agent's socket, and the jobs that they get
    are recorded as having run: use a separate queue for this. Nothing is executed; a job lasts as long as its
    SimulatedSeconds or its '/bin/sleep N' says. Owners of jobs need accounts on this machine.

    Rates and latencies are printed at the end. Run this as the agent's account, the startd's account, or
    root.
    """
    from fetchwork import config
    from fetchwork.deploy.hooks import fetch_deadline_s

    host_config = config.load(file)
    keyword = _keyword(host_config, keyword)
    ledger = Ledger()
    # a hook waits for as long as its agent lets it
    fetch_s = fetch_deadline_s(host_config.keywords[keyword].max_fetch_wait_s)
    specs = [SlotSpec(memory_mib=memory)] * slots
    if partitionable:
        specs = [SlotSpec(slots, slots * memory, slots * 1_000_000, partitionable=True)]
    host = functools.partial(
        Host,
        slots=specs,
        keyword=keyword,
        behaviour=BEHAVIOURS[htcondor],
        timing=_timing(host_config, keyword),
        clock=Clock(scale),
        ledger=ledger,
        deadlines_s=None if fetch_s is None else {"fetch_work": float(fetch_s)},
        chains=bool(host_config.keywords[keyword].chain_s),
    )

    async def run() -> float:
        async with contextlib.AsyncExitStack() as stack:
            simulated = await _hosts(stack, host, host_config, keyword, slots, hosts)
            return await _play(simulated, ledger, seconds, jobs)

    allow_connections()
    lasted = asyncio.run(run())
    _show(ledger, lasted, as_json)


def _timing(host_config: HostConfig, keyword: str) -> Timing:
    settings = host_config.keywords[keyword]
    return Timing(
        unclaimed_delay_s=settings.fetch_delay_s,
        starter_initial_update_interval_s=host_config.slots.initial_update_interval_s,
        starter_update_interval_s=host_config.slots.update_interval_s,
        # an agent answers a busy slot's fetch when it sees the starter end; here no process exists
        polling_interval_s=1.0,
        job_exit_timeout_s=settings.job_exit_timeout_s,
        pipe_buffer_max=host_config.host.pipe_buffer_max,
    )


async def _hosts(
    stack: contextlib.AsyncExitStack,
    host: Callable[..., Host],
    host_config: HostConfig,
    keyword: str,
    slots: int,
    hosts: int | None,
) -> list[Host]:
    """This host with its agent or, if a number is given, so many hosts with agents that are started here."""
    if hosts is None:
        spool = host_config.agent.spool
        return [host(host_config.name, connect_to(host_config.socket), spool=spool)]
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fetchwork-")))
    agents = [_agent(host_config, keyword, directory, slots, number) for number in range(1, hosts + 1)]
    stack.push_async_callback(_stop, agents)
    for first in range(0, hosts, STARTING):
        await asyncio.gather(*(agent.start() for agent in agents[first : first + STARTING]))
    return [host(agent.name, connect_to(agent.socket), spool=agent.spool) for agent in agents]


def _keyword(host_config: HostConfig, keyword: str | None) -> str:
    known = list(host_config.keywords)
    if keyword is None and len(known) == 1:
        return known[0]
    if keyword not in known:
        asked = (
            f"keyword '{keyword}' is not in the host file"
            if keyword
            else "the host file has several keywords"
        )
        raise ConfigError([f"{asked}; allowed for --keyword: {', '.join(known)}"])
    return keyword


async def _stop(agents: list[AgentProcess]) -> None:
    await asyncio.gather(*(agent.stop() for agent in agents))


def _agent(host_config: HostConfig, keyword: str, directory: Path, slots: int, number: int) -> AgentProcess:
    from fetchwork.simulate.agents import AgentProcess

    settings = host_config.keywords[keyword]
    assert settings.database is not None, "filled in when the file was read"
    return AgentProcess(
        directory,
        f"sim{number}",
        host_config.databases[settings.database].conninfo,
        agent={
            "lease_s": host_config.agent.lease_s,
            "pool_size": host_config.agent.pool_size,
            "max_waiting_fetches": min(4096, max(slots, host_config.agent.max_waiting_fetches)),
        },
        keyword={
            "queues": list(settings.queues),
            "max_fetch_wait_s": settings.max_fetch_wait_s,
            "chain_s": settings.chain_s,
        },
        keyword_name=keyword,
    )


async def _play(hosts: list[Host], ledger: Ledger, seconds: float | None, jobs: int | None) -> float:
    began = time.monotonic()
    for host in hosts:
        host.start()
    with contextlib.suppress(asyncio.CancelledError):
        # a thousand starters count; waking a task at each job's end would cost more than polling
        while (seconds is None or time.monotonic() - began < seconds) and (  # noqa: ASYNC110
            jobs is None or _ended(ledger) < jobs
        ):
            await asyncio.sleep(0.05)
    lasted = time.monotonic() - began
    # running jobs go back to the queue
    await asyncio.gather(*(host.shut_down() for host in hosts))
    return lasted


def _ended(ledger: Ledger) -> int:
    """The jobs that have ended by themselves."""
    return ledger.counts["job_exit exit"] + ledger.counts["chain_next exit"]


def _show(ledger: Ledger, lasted: float, as_json: bool) -> None:
    summary = ledger.summary()
    rate = round(_ended(ledger) / lasted, 1)
    if as_json:
        output.print_json({"seconds": round(lasted, 2), "jobs_per_second": rate, **summary})
        return
    click.echo(f"{_ended(ledger)} jobs in {lasted:.1f} s: {rate} jobs/s")
    for name, times in {**summary["hooks_ms"], "job to job": summary["gap_ms"]}.items():
        shown = "  ".join(f"{point} {value:g} ms" for point, value in times.items())
        click.echo(f"  {name:<16} {shown or 'never'}")
    click.echo("  " + ", ".join(f"{name}: {count}" for name, count in summary["counts"].items()))
