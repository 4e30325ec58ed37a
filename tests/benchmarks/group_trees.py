"""Trees of accounting groups with quotas, and who holds the slots: by a real negotiator, and by fetchwork.

Both sides get the same tree, the same number of free slots and the same jobs, which outlast the comparison.
The negotiator has been stopped while the jobs were submitted, so that its first cycle knows all of them.
fetchwork has no cycle: hosts fill their slots at the same moment, each by counts of its own. So its slots
change hands for a while before they are counted.

Groups that regroup are counted together with "<none>": of submitters with equal priorities that compete for
the same slots, the negotiator gave one 14 and two others 25 each. In the next run it was another one that had
14 (23.9.6).
"""

import asyncio
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from fetchwork.pool import PersonalPool
from fetchwork.pool.condorroot import DEFAULT_SUITE
from fetchwork.simulate import BEHAVIOURS, Host, SlotSpec, Timing
from fetchwork.simulate.agents import AgentProcess
from fetchwork.simulate.hookcalls import connect_to
from tests.benchmarks import frame

SLOTS = 100
HOSTS = 4
PATIENCE_S = 90
JOB_S = 3600
CONFIG = """
DAEMON_LIST = $(DAEMON_LIST) SCHEDD NEGOTIATOR
ALLOW_WRITE = $(ALLOW_WRITE), bob@$(UID_DOMAIN)
START = True
STARTD_JOB_HOOK_KEYWORD =
NEGOTIATOR_INTERVAL = 3
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
SCHEDD_INTERVAL = 2
JOB_START_COUNT = 50
JOB_START_DELAY = 1
UPDATE_INTERVAL = 5
MAXJOBRETIREMENTTIME = 0
MachineMaxVacateTime = 1
"""
NONE = "<none>"


@dataclass(frozen=True)
class Group:
    """A group of a tree, and the jobs that each of its users submits."""

    name: str
    quota: float | None
    dynamic: float | None
    accept_surplus: bool
    autoregroup: bool
    jobs: dict[str, int]


def tree(seed: int, *, bounded: bool = True) -> list[Group]:
    """A tree of up to 3 levels and 4 to 12 groups, with more jobs than slots, mostly.

    If ``bounded``, groups have no more quota together than the group above, and users only where no group is
    below: otherwise the negotiator gives slots that it has not, and who holds them depends on the order of
    names.
    """
    dice = random.Random(seed)
    autoregroup = dice.random() < 0.2
    names: list[str] = []
    for number in range(dice.randint(4, 12)):
        parents = ["", *(name for name in names if name.count(".") < 2)]
        parent = dice.choice(parents)
        names.append(f"{parent}.g{number}" if parent else f"g{number}")
    groups = [Group(NONE, None, None, True, False, _jobs(dice, 1))]
    left = {"": float(SLOTS)}
    for name in names:
        parent = name.rpartition(".")[0]
        static = dice.random() < 0.6
        most = left[parent] if bounded else SLOTS
        quota = float(int(most * dice.uniform(0.0, 0.6))) if static else None
        if quota is not None:
            left[parent] -= quota
        siblings = sum(1 for other in names if other.rpartition(".")[0] == parent)
        dynamic = None if static else round(min(1.0, dice.uniform(0.02, 1.2) / siblings), 3)
        left[name] = quota if quota is not None else 0.0
        is_leaf = not any(other.startswith(f"{name}.") for other in names)
        regroups = autoregroup and dice.random() < 0.5
        jobs = _jobs(dice, 0) if is_leaf or not bounded else {}
        groups.append(Group(name, quota, dynamic, dice.random() < 0.6, regroups, jobs))
    return groups


def _jobs(dice: random.Random, least: int) -> dict[str, int]:
    users = [f"u{number}" for number in range(dice.randint(least, 2))]
    return {user: dice.choice([dice.randint(1, 12), dice.randint(10, 60), SLOTS]) for user in users}


def settings(groups: list[Group]) -> str:
    """The negotiator's configuration of a tree."""
    lines = ["GROUP_NAMES = " + ", ".join(group.name for group in groups if group.name != NONE)]
    lines.append(f"GROUP_AUTOREGROUP = {any(group.autoregroup for group in groups)}")
    for group in groups:
        if group.name == NONE:
            continue
        if group.quota is not None:
            lines.append(f"GROUP_QUOTA_{group.name} = {group.quota:g}")
        else:
            lines.append(f"GROUP_QUOTA_DYNAMIC_{group.name} = {group.dynamic:g}")
        lines.append(f"GROUP_ACCEPT_SURPLUS_{group.name} = {group.accept_surplus}")
        lines.append(f"GROUP_AUTOREGROUP_{group.name} = {group.autoregroup}")
    return "\n".join(lines) + "\n"


class Negotiator:
    """A pool with a schedd and a negotiator."""

    def __init__(self, pool: PersonalPool) -> None:
        self.pool = pool

    def hold_slots(self, groups: list[Group]) -> Counter[str]:
        """Let the jobs of a tree run; return the slots of each group."""
        self._run("condor_off", "-negotiator")
        (self.pool.condor.directory / "config.local").write_text(settings(groups))
        wanted: Counter[str] = Counter()
        for group in groups:
            for user, jobs in group.jobs.items():
                self._submit(group.name, user, jobs)
                wanted[f"{group.name}.{user}" if group.name != NONE else "bob"] += jobs
        self._until("submitters are known", lambda: self._submitters() == wanted)
        self._run("condor_on", "-negotiator")
        return self._settled(min(SLOTS, wanted.total()))

    def clear(self) -> None:
        """Remove all jobs, wait until the slots are free, and forget who used them."""
        self._run("condor_rm", "-all")
        self._run("condor_rm", "-all", "-forcex")
        self._run("condor_vacate", "-all", "-fast")
        self._until("slots are free", lambda: not self._held())
        # otherwise the users of one tree get fewer slots in the next
        self._run("condor_userprio", "-resetall")

    def _submit(self, group: str, user: str, jobs: int) -> None:
        charged = f"accounting_group = {group}\naccounting_group_user = {user}\n" if group != NONE else ""
        text = f"executable = /bin/sleep\narguments = {JOB_S}\ninitialdir = /tmp\n{charged}queue {jobs}\n"
        path = self.pool.directory / "tmp/jobs.sub"
        path.write_text(text)
        path.chmod(0o644)
        self._run("condor_submit", "-terse", "/tmp/jobs.sub", user="bob")

    def _submitters(self) -> Counter[str]:
        told = self._run("condor_status", "-submitters", "-af", "Name", "IdleJobs")
        rows = (line.split() for line in told.splitlines())
        return Counter({name.partition("@")[0]: int(idle) for name, idle in rows if int(idle)})

    def _held(self) -> Counter[str]:
        told = self._run(
            "condor_status", "-constraint", 'State == "Claimed"', "-af", "RemoteGroup", "RemoteUser"
        )
        return Counter(line.split()[0] for line in told.splitlines())

    def _settled(self, most: int) -> Counter[str]:
        """The slots of each group when they have not changed for some cycles."""
        held, since = self._held(), time.monotonic()
        end = since + PATIENCE_S
        while time.monotonic() < end:
            time.sleep(2)
            now = self._held()
            if now != held:
                held, since = now, time.monotonic()
            # all that can run does, or several cycles gave nothing more
            if held and time.monotonic() - since > (6 if held.total() >= most else 16):
                break
        return held

    def _until(self, what: str, found: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not found():
            if time.monotonic() > end:
                raise SystemExit(f"not within {PATIENCE_S} s: {what}")
            time.sleep(0.5)

    def _run(self, *command: str, user: str | None = None) -> str:
        return self.pool.run_command(command, user=user, stdin=subprocess.DEVNULL).stdout


@contextmanager
def negotiator() -> Iterator[Negotiator]:
    """A pool with a negotiator, until the end."""
    host = {"slots": {"fetched_only": False}}
    with frame.pool(slots=SLOTS, config=CONFIG, host=host, suite=DEFAULT_SUITE) as pool:
        yield Negotiator(pool)


def ours(conninfo: str, directory: Path, groups: list[Group]) -> Counter[str]:
    """The slots of each group after agents gave the free slots of simulated hosts to the jobs of a tree."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        return asyncio.run(_hold_slots(conninfo, directory, groups, connection))


def submit(connection: psycopg.Connection, groups: list[Group]) -> None:
    """Make the groups, and submit the jobs of their users, in one transaction."""
    with connection.transaction():
        for group in groups:
            if group.name != NONE:
                quota = (
                    {"quota": group.quota} if group.quota is not None else {"dynamic_quota": group.dynamic}
                )
                competes = {"accept_surplus": group.accept_surplus, "autoregroup": group.autoregroup}
                connection.execute(
                    "SELECT fetchwork.set_group(%s, %s)", [group.name, Jsonb(quota | competes)]
                )
            for user, jobs in group.jobs.items():
                charged = {"AccountingGroup": f"{group.name}.{user}"} if group.name != NONE else {}
                ad = {"Cmd": "/bin/true", "Owner": "nobody", "Iwd": "/", "SimulatedSeconds": JOB_S, **charged}
                connection.execute("SELECT fetchwork.submit_many(%s::jsonb[])", [[Jsonb(ad)] * jobs])


async def _hold_slots(
    conninfo: str, directory: Path, groups: list[Group], connection: psycopg.Connection
) -> Counter[str]:
    agents = [
        AgentProcess(directory, f"sim{n}", conninfo, keyword={"max_fetch_wait_s": 2, "fetch_delay_s": 1})
        for n in range(HOSTS)
    ]
    hosts: list[Host] = []
    held: Counter[str] = Counter()
    try:
        for agent in agents:
            await agent.start()
            timing = Timing(unclaimed_delay_s=1.0, polling_interval_s=1.0)
            slots = [SlotSpec()] * (SLOTS // HOSTS)
            hosts.append(
                Host(
                    agent.name,
                    connect_to(agent.socket),
                    slots,
                    spool=agent.spool,
                    behaviour=BEHAVIOURS["23.9"],
                    timing=timing,
                )
            )
        for host in hosts:
            host.start()
        end = time.monotonic() + PATIENCE_S
        while frame.value(connection, "SELECT count(*) FROM fetchwork.slots") < SLOTS:
            if time.monotonic() > end:
                raise SystemExit(f"not within {PATIENCE_S} s: slots are known")
            await asyncio.sleep(0.5)
        submit(connection, groups)
        end = time.monotonic() + PATIENCE_S
        ended = "SELECT count(*) FROM fetchwork.runs WHERE outcome = 'vacated'"
        while time.monotonic() < end and frame.value(connection, ended) < 3 * SLOTS:
            await asyncio.sleep(0.5)
            connection.execute(
                "SELECT fetchwork.vacate(ARRAY[v.jobid]) FROM (SELECT r.jobid FROM fetchwork.runs AS r"
                " WHERE r.outcome IS NULL AND r.started_at IS NOT NULL ORDER BY random() LIMIT %s) AS v",
                [SLOTS // 30],
            )
        since, end = time.monotonic(), time.monotonic() + PATIENCE_S
        while time.monotonic() < end and time.monotonic() - since < 5:
            await asyncio.sleep(0.5)
            rows = connection.execute("SELECT name, weightedinuse FROM fetchwork.groups").fetchall()
            now = Counter({name: int(slots) for name, slots in rows if slots})
            if now != held:
                held, since = now, time.monotonic()
    finally:
        for host in hosts:
            await host.vanish()
        for agent in agents:
            await agent.stop()
    return held


def _of_competitors(held: Counter[str], groups: list[Group]) -> Counter[str]:
    """The slots of each group, where all that compete in the negotiator's last round are one."""
    competitors = {group.name for group in groups if group.autoregroup}
    together: Counter[str] = Counter()
    for name, slots in held.items():
        together[NONE if name in competitors else name] += slots
    return together


def compare(seeds: str) -> float:
    """Print the differences for trees by their seeds ("1-20"); return the largest, as a part of all slots."""
    first, _, last = seeds.partition("-")
    worst = 0.0
    with negotiator() as theirs, frame.server() as (server, directory):
        for seed in range(int(first), int(last or first) + 1):
            began = time.monotonic()
            groups = tree(seed)
            held = theirs.hold_slots(groups)
            theirs.clear()
            mine = ours(frame.new_database(server, f"tree{seed}"), directory, groups)
            held, mine = _of_competitors(held, groups), _of_competitors(mine, groups)
            names = sorted({*held, *mine})
            furthest = max(abs(held[name] - mine[name]) / SLOTS for name in names)
            worst = max(worst, furthest)
            shown = " ".join(f"{name}={held[name]}/{mine[name]}" for name in names)
            print(
                f"tree {seed}: {furthest:.3f} of all slots ({time.monotonic() - began:.0f} s), "
                f"negotiator/fetchwork: {shown}",
                flush=True,
            )
    return worst
