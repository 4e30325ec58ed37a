"""A queue of the shape that DiracX has published about its own, and agents that claim from it.

501 autoclusters, which name sites (60), platforms (67) and tags, of 20 submitters; millions of waiting jobs.
The rows are written by SQL, because submitting them would take an hour: they equal those that the schema's
functions write.
"""

import asyncio
import contextlib
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from fetchwork.agent.client import ask
from fetchwork.errors import AgentUnavailable
from fetchwork.hook import wire
from fetchwork.pool import hostfile
from fetchwork.simulate.agents import AgentProcess
from tests.benchmarks.cpu import backends_s, family_s

AUTOCLUSTERS = 501
SITES = 60
PLATFORMS = 67
SUBMITTERS = 20
CLUSTER = 100  # jobs in a cluster
CLUSTERS = 5_000  # clusters written at a time
SETTINGS = {
    "shared_buffers": "2GB",
    "max_wal_size": "4GB",
    "wal_compression": "on",
    "checkpoint_timeout": "30min",
    "max_connections": "500",
}
SLOT_AD = (Path(__file__).parent.parent / "data/ads/25.14.1-fetch_work-pslot-unclaimed.ad").read_text()
_NAME = re.compile(r"^Name = .*$", re.M)
_CLOCK = re.compile(r"^MyCurrentTime = .*$", re.M)
#: seconds: for one answer, until all slots have had jobs, until all agents have ended
ANSWER_S = 25.0
WARM_S = 60.0
STOP_S = 30.0

# the requirements of each autocluster: three sites or any, a platform or any, now and then a tag
KINDS = """
INSERT INTO fetchwork.submitter (name)
SELECT 'group' || n || '.nobody' FROM generate_series(0, {submitters} - 1) AS n;

INSERT INTO fetchwork.autocluster (
    signature, queue, owner, submitter, request_cpus, request_memory_mib, request_disk_kib, ad
)
SELECT md5(n::text)::uuid, 'default', 'nobody', 'group' || n % {submitters} || '.nobody', 1, 64, 10,
    jsonb_build_object(
        'Owner', 'nobody', 'AccountingGroup', 'group' || n % {submitters} || '.nobody',
        'RequestCpus', 1, 'RequestMemory', 64, 'RequestDisk', 10,
        'Requirements', '/Expr('
            || CASE WHEN n % 5 = 0 THEN 'true' ELSE format(
                'stringListMember(TARGET.Site, "site%s,site%s,site%s")',
                n % {sites}, (n * 7 + 13) % {sites}, (n * 11 + 29) % {sites}) END
            || CASE WHEN n % 3 = 0 THEN '' ELSE format(
                ' && TARGET.Platform == "platform%s"', n % {platforms}) END
            || CASE WHEN n % 10 = 0 THEN ' && stringListMember("MultiProcessor", TARGET.Tags)' ELSE '' END
            || ' && TARGET.Arch == "X86_64" && TARGET.Memory >= RequestMemory)/'
    )
FROM generate_series(0, {autoclusters} - 1) AS n;

-- what is put back comes behind all that will be written
SELECT setval('fetchwork.position', 1000000000000);

INSERT INTO fetchwork.demand (autocluster_id, job_prio)
SELECT autocluster_id, 0 FROM fetchwork.autocluster;
"""
# clusters from {first} to {last}, which take the autoclusters in turn
JOBS = """
CREATE TEMPORARY TABLE placed ON COMMIT DROP AS
SELECT c AS cluster_id, a.ids[c % {autoclusters} + 1] AS autocluster_id
FROM (SELECT array_agg(autocluster_id ORDER BY autocluster_id) AS ids FROM fetchwork.autocluster) AS a
CROSS JOIN generate_series({first}, {last}) AS c;

INSERT INTO fetchwork.cluster (cluster_id, ad, procs, submitted_by)
SELECT
    p.cluster_id, a.ad || '{{"Cmd": "/bin/true", "Iwd": "/tmp", "Out": "/dev/null", "Err": "/dev/null"}}',
    {cluster}, 'bench'
FROM placed AS p JOIN fetchwork.autocluster AS a ON a.autocluster_id = p.autocluster_id;

INSERT INTO fetchwork.job (cluster_id, proc_id, autocluster_id, position, owner, queue, ad)
SELECT
    p.cluster_id, n, p.autocluster_id, p.cluster_id::bigint * {cluster} + n, 'nobody', 'default',
    jsonb_build_object('Args', n::text)
FROM placed AS p CROSS JOIN generate_series(0, {cluster} - 1) AS n;

INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
SELECT p.autocluster_id, 0, p.cluster_id::bigint * {cluster} + n, p.cluster_id, n
FROM (SELECT * FROM placed ORDER BY autocluster_id, cluster_id) AS p
CROSS JOIN generate_series(0, {cluster} - 1) AS n;

SELECT setval('fetchwork.cluster_id', {last});
"""
# claimed jobs wait again, at the end; without a notification, because every autocluster has more jobs at any
# time
PUT_BACK = """
WITH gone AS (
    DELETE FROM fetchwork.run WHERE state = 'reserved' RETURNING cluster_id, proc_id, autocluster_id
)
INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
SELECT autocluster_id, 0, nextval('fetchwork.position'), cluster_id, proc_id FROM gone
"""


class DiracQueue:
    """The queue in one database, and its growth."""

    def __init__(self, conninfo: str, submitters: int = SUBMITTERS) -> None:
        self.conninfo = conninfo
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self._clusters = 0
        self.run(KINDS, autoclusters=AUTOCLUSTERS, sites=SITES, platforms=PLATFORMS, submitters=submitters)

    def close(self) -> None:
        """End its connection."""
        self.connection.close()

    def run(self, statements: str, **numbers: int) -> None:
        """Execute statements, each of which ends a line with a semicolon."""
        for statement in statements.format(**numbers).split(";\n"):
            if statement.strip():
                self.connection.execute(statement)

    def grow(self, jobs: int) -> None:
        """Write rows until so many jobs wait."""
        while self._clusters * CLUSTER < jobs:
            last = min(self._clusters + CLUSTERS, jobs // CLUSTER)
            numbers = {"first": self._clusters + 1, "last": last}
            with self.connection.transaction():
                self.run(JOBS, cluster=CLUSTER, autoclusters=AUTOCLUSTERS, **numbers)
            self._clusters = last
        self.connection.execute("VACUUM ANALYZE")
        # else the checkpoint would happen while claims are measured
        self.connection.execute("CHECKPOINT")

    def put_back(self, until: threading.Event) -> None:
        """Requeue the claimed jobs every 20 ms; runs in a thread."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            while not until.wait(0.02):
                connection.execute(PUT_BACK)


def slot_ad(number: int) -> str:
    """A partitionable slot at a site, of a platform: it goes on asking while jobs of it run."""
    tags = ("", "MultiProcessor", "GPU,MultiProcessor")[number % 3]
    return (
        f'{SLOT_AD}Site = "site{number * 17 % SITES}"\n'
        f'Platform = "platform{number * 5 % PLATFORMS}"\nTags = "{tags}"\n'
    )


@dataclass(slots=True)
class _Asked:
    """The answers so far; each slot counts for itself."""

    claims: int = 0
    #: requests that brought no job, by reason
    in_vain: Counter[str] = field(default_factory=Counter)


class _Slots:
    """The slots of some agents, each of which asks again as soon as it has its answer."""

    def __init__(self, agents: Sequence[AgentProcess], clients: int) -> None:
        self._stop = threading.Event()
        self._asked = {
            (number, client): _Asked() for number in range(len(agents)) for client in range(clients)
        }
        self._threads = [
            threading.Thread(target=self._ask, args=(agents[number], number, client), daemon=True)
            for number, client in self._asked
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop after each slot's last answer."""
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * ANSWER_S)

    @property
    def claims(self) -> int:
        """The number of jobs that were printed for a slot so far."""
        return sum(one.claims for one in self._asked.values())

    @property
    def all_served(self) -> bool:
        """Whether each agent is warm: it has made claims for each of its slots."""
        return all(one.claims >= 2 for one in self._asked.values())

    def in_vain(self) -> Counter[str]:
        return sum((one.in_vain for one in self._asked.values()), Counter())

    def _ask(self, agent: AgentProcess, number: int, client: int) -> None:
        asked = self._asked[number, client]
        text = _NAME.sub(f'Name = "slot{client + 1}@{agent.name}"', slot_ad(number))
        count = 0
        while not self._stop.is_set():
            count += 1
            # a slot's ad has the current time: no two fetches send the same ad
            ad = _CLOCK.sub(f"MyCurrentTime = {1795220753 + count}", text).encode()
            request = wire.Request("fetch_work", ad, keyword=hostfile.KEYWORD, deadline_ms=20_000)
            try:
                reply = ask(agent.socket, request, ANSWER_S)
                problem = reply.message if reply.code else "no job was offered"
            except AgentUnavailable as error:
                problem = str(error)
            else:
                if b"FetchWorkRunId" in reply.body:
                    asked.claims += 1
                    continue
            asked.in_vain[problem] += 1
            self._stop.wait(0.2)


async def _started(directory: Path, conninfo: str, agents: int) -> list[AgentProcess]:
    made = [
        AgentProcess(directory, f"bench{agents}x{number}", conninfo, keyword={"max_fetch_wait_s": 0})
        for number in range(agents)
    ]
    # as many at a time as there are cores: each loads HTCondor's library first
    for first in range(0, agents, 2):
        await asyncio.gather(*(agent.start() for agent in made[first : first + 2]))
    return made


async def _stopped(agents: Sequence[AgentProcess]) -> None:
    """End the agents in any state."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(STOP_S):
            await asyncio.gather(*(agent.stop() for agent in agents))
    for agent in agents:
        agent.signal(signal.SIGKILL)


def claims_per_second(
    queue: DiracQueue, directory: Path, *, agents: int, clients: int, seconds: float
) -> float:
    """Claims by real agents, from the request on the socket to the printed ad.

    ``clients`` partitionable slots of each agent ask all the time. The agents are warm: their work before
    each slot had its first two jobs, which may take ``WARM_S``, is not counted. On a machine that is too busy
    an agent may get no answer of the database in time; such a request claims nothing, and is printed.
    """
    stop = threading.Event()
    processes = asyncio.run(_started(directory, queue.conninfo, agents))
    slots = _Slots(processes, clients)
    feeder = threading.Thread(target=queue.put_back, args=(stop,), daemon=True)
    try:
        feeder.start()
        slots.start()
        warm_by = time.monotonic() + WARM_S
        while not slots.all_served and time.monotonic() < warm_by:
            time.sleep(0.1)
        begin, before, in_vain = time.monotonic(), slots.claims, slots.in_vain()
        server_s, agents_s = backends_s(queue.connection), _agents_s(processes)
        time.sleep(seconds)
        took, claims = time.monotonic() - begin, slots.claims - before
        server_s, agents_s = backends_s(queue.connection) - server_s, _agents_s(processes) - agents_s
        in_vain = slots.in_vain() - in_vain
    finally:
        slots.stop()
        stop.set()
        asyncio.run(_stopped(processes))
        feeder.join(ANSWER_S)
    print(
        f"    {agents} agents, {clients} slots of each at a time: {claims / took:.0f} claims/s;"
        f" CPU ms a claim: agent and matchmaker {agents_s * 1000 / max(1, claims):.2f},"
        f" server (with putting back) {server_s * 1000 / max(1, claims):.2f}",
        flush=True,
    )
    for problem, times in in_vain.most_common(3):
        print(f"    {times} requests in vain: {problem}", flush=True)
    return claims / took


def _agents_s(agents: Sequence[AgentProcess]) -> float:
    """CPU time of agents and all processes that they have started."""
    return sum(family_s(agent.pid) for agent in agents)
