"""A queue of the shape that DiracX has published of its own, and agents that claim from it.

501 autoclusters, which name sites (60), platforms (67) and tags, of 20 submitters; millions of waiting jobs.
The rows are written by SQL, because submitting them would take an hour: they are what the schema's functions
leave behind.
"""

import asyncio
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from fetchwork.agent.client import ask
from fetchwork.hook import wire
from fetchwork.pool import hostfile
from fetchwork.simulate.agents import AgentProcess
from tests.benchmarks.cpu import backends_s, family_s

AUTOCLUSTERS = 501
SITES = 60
PLATFORMS = 67
SUBMITTERS = 20
CLUSTER = 10_000  # jobs in a cluster
SETTINGS = {
    "shared_buffers": "2GB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "30min",
    "max_connections": "500",
}
SLOT_AD = (Path(__file__).parent.parent / "data/ads/23.9.6-fetch_work-static-unclaimed.ad").read_text()
_NAME = re.compile(r"^Name = .*$", re.M)

# what each autocluster asks for: three sites or any, a platform or any, now and then a tag
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

INSERT INTO fetchwork.demand (autocluster_id, job_prio)
SELECT autocluster_id, 0 FROM fetchwork.autocluster;
"""
# clusters from {first} to {last}; their jobs go round the autoclusters
JOBS = """
INSERT INTO fetchwork.cluster (cluster_id, ad, procs, submitted_by)
SELECT n, jsonb_build_object('Cmd', '/bin/true', 'Iwd', '/tmp', 'Out', '/dev/null', 'Err', '/dev/null'),
    {cluster}, 'bench'
FROM generate_series({first}, {last}) AS n;

WITH placed AS (
    SELECT c AS cluster_id, p AS proc_id, a.ids[(c * {cluster} + p) % {autoclusters} + 1] AS autocluster_id,
        nextval('fetchwork.position') AS position
    FROM (SELECT array_agg(autocluster_id ORDER BY autocluster_id) AS ids FROM fetchwork.autocluster) AS a
    CROSS JOIN generate_series({first}, {last}) AS c
    CROSS JOIN generate_series(0, {cluster} - 1) AS p
),
jobs AS (
    INSERT INTO fetchwork.job (cluster_id, proc_id, autocluster_id, position, owner, queue, ad)
    SELECT p.cluster_id, p.proc_id, p.autocluster_id, p.position, 'nobody', 'default',
        a.ad || jsonb_build_object('Args', p.proc_id::text)
    FROM placed AS p JOIN fetchwork.autocluster AS a ON a.autocluster_id = p.autocluster_id
)
INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
SELECT autocluster_id, 0, position, cluster_id, proc_id FROM placed;

SELECT setval('fetchwork.cluster_id', {last});
"""
# what was claimed waits again, at the end; no news, for there is more of each autocluster all the time
PUT_BACK = """
WITH gone AS (
    DELETE FROM fetchwork.run RETURNING cluster_id, proc_id, autocluster_id
)
INSERT INTO fetchwork.waiting (autocluster_id, job_prio, position, cluster_id, proc_id)
SELECT autocluster_id, 0, nextval('fetchwork.position'), cluster_id, proc_id FROM gone
"""


class DiracQueue:
    """The queue in one database, and its growth."""

    def __init__(self, conninfo: str) -> None:
        self.conninfo = conninfo
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self._clusters = 0
        for statement in KINDS.format(
            autoclusters=AUTOCLUSTERS, sites=SITES, platforms=PLATFORMS, submitters=SUBMITTERS
        ).split(";\n"):
            if statement.strip():
                self.connection.execute(statement)

    def close(self) -> None:
        """End its connection."""
        self.connection.close()

    def grow(self, jobs: int) -> None:
        """Write rows until so many jobs wait."""
        while self._clusters * CLUSTER < jobs:
            last = min(self._clusters + 20, jobs // CLUSTER)
            numbers = {"first": self._clusters + 1, "last": last}
            for statement in JOBS.format(cluster=CLUSTER, autoclusters=AUTOCLUSTERS, **numbers).split(";\n"):
                if statement.strip():
                    self.connection.execute(statement)
            self._clusters = last
        self.connection.execute("VACUUM ANALYZE")

    def put_back(self, until: threading.Event) -> None:
        """Every 20 ms what was claimed waits again; for a thread."""
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            while not until.wait(0.02):
                connection.execute(PUT_BACK)


def slot_ad(number: int) -> str:
    """A slot at a site, of a platform."""
    tags = ("", "MultiProcessor", "GPU,MultiProcessor")[number % 3]
    return (
        f'{SLOT_AD}Site = "site{number * 17 % SITES}"\n'
        f'Platform = "platform{number * 5 % PLATFORMS}"\nTags = "{tags}"\n'
    )


async def _started(directory: Path, conninfo: str, agents: int) -> list[AgentProcess]:
    made = [
        AgentProcess(directory, f"bench{agents}x{number}", conninfo, keyword={"max_fetch_wait_s": 0})
        for number in range(agents)
    ]
    for agent in made:
        await agent.start()
    return made


async def _stopped(agents: Sequence[AgentProcess]) -> None:
    for agent in agents:
        await agent.stop()


def claims_per_second(
    queue: DiracQueue, directory: Path, *, agents: int, clients: int, seconds: float
) -> float:
    """Claims by real agents, from the request on the socket to the printed ad.

    ``clients`` slots of each agent ask at a time, each time as another slot. The agents are warm: the first
    second counts for nothing.
    """
    stop, warm = threading.Event(), threading.Event()
    processes = asyncio.run(_started(directory, queue.conninfo, agents))

    def slots(agent: AgentProcess, number: int, client: int) -> int:
        got = counted = 0
        text = slot_ad(number)
        while not stop.is_set():
            ad = _NAME.sub(f'Name = "slot{client}_{got}@{agent.name}"', text).encode()
            reply = ask(
                agent.socket,
                wire.Request("fetch_work", ad, keyword=hostfile.KEYWORD, deadline_ms=20_000),
                25.0,
            )
            assert not reply.code, reply
            assert b"FetchWorkRunId" in reply.body, "no job was offered"
            got += 1
            counted += warm.is_set()
        return counted

    try:
        with ThreadPoolExecutor(agents * clients + 1) as threads:
            feeder = threads.submit(queue.put_back, stop)
            asked = [
                threads.submit(slots, agent, number, client)
                for number, agent in enumerate(processes)
                for client in range(clients)
            ]
            try:
                time.sleep(1.0 + 0.2 * agents)
                warm.set()
                begin, server, agent_s = time.monotonic(), backends_s(queue.connection), _agents_s(processes)
                time.sleep(seconds)
                took = time.monotonic() - begin
                server, agent_s = backends_s(queue.connection) - server, _agents_s(processes) - agent_s
            finally:
                stop.set()
            claims = sum(each.result() for each in asked)
            feeder.result()
    finally:
        stop.set()
        asyncio.run(_stopped(processes))
    print(
        f"    {agents} agents, {clients} slots of each at a time: {claims / took:.0f} claims/s;"
        f" CPU ms a claim: agent and matchmaker {agent_s * 1000 / max(1, claims):.2f},"
        f" server (with putting back) {server * 1000 / max(1, claims):.2f}",
        flush=True,
    )
    return claims / took


def _agents_s(agents: Sequence[AgentProcess]) -> float:
    """CPU time of agents and all that they have started."""
    return sum(family_s(agent.pid) for agent in agents)
