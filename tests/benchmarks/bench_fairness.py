"""Slot time of three submitters with factors 1, 2 and 4 and endless equal jobs, on 16 simulated slots.

    make bench-fairness
    make bench-fairness ARGS="--seconds 60 --halflife 10"
    make bench-fairness ARGS=--chains    the same with jobs in chains, which must not change the figures
    make bench-fairness ARGS="--trees 1-20"    trees of groups beside a real negotiator (group_trees.py)

Two simulated hosts with an agent each, on a server of their own. The shares should be inverse to the factors,
4 : 2 : 1, in the long run: some half-lives of the usage after the start, so the half-life is short here. The
time that job processes were really alive counts, not the queue's account of it.

Then a new submitter, with the worst factor of the three, submits one job.
"""

import asyncio
import sys
import time
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from fetchwork.db import schema
from fetchwork.simulate import BEHAVIOURS, Host, Ledger, SlotSpec, Timing
from fetchwork.simulate.agents import AgentProcess
from fetchwork.simulate.hookcalls import connect_to
from tests.benchmarks import frame, group_trees

FACTORS = {"group_one": 1, "group_two": 2, "group_four": 4}
NEWCOMER = "group_late"
HOSTS, SLOTS_EACH = 2, 8
JOB_S = 2.0
#: longer than a run
CHAIN_S = 3600


class Bench:
    """A queue, two hosts, and the processes that ran on them."""

    def __init__(self, conninfo: str, *, chains: bool = False) -> None:
        self.chains = chains
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.conninfo = conninfo
        self.ledger = Ledger()
        self.clusters: dict[str, str] = {}

    def prepare(self, halflife_s: float) -> None:
        """Set the submitters with their factors, and the half-life."""
        schema.init(self.conninfo)
        call = self.connection.execute
        call("SELECT fetchwork.set_setting('priority_halflife', %s::numeric)", [halflife_s])
        for name, factor in {**FACTORS, NEWCOMER: max(FACTORS.values())}.items():
            call("SELECT fetchwork.set_submitter(%s, %s)", [name, Jsonb({"prio_factor": factor})])

    def submit(self, group: str, count: int) -> None:
        """Submit equal jobs of one submitter, in one cluster."""
        ad = {
            "Cmd": "/bin/true",
            "Owner": "nobody",
            "Iwd": "/",
            "AccountingGroup": group,
            "SimulatedSeconds": JOB_S,
        }
        self.connection.execute("SELECT fetchwork.submit_many(%s::jsonb[])", [[Jsonb(ad)] * count])
        row = self.connection.execute("SELECT max(cluster_id) FROM fetchwork.cluster").fetchone()
        assert row is not None
        self.clusters[str(row[0])] = group

    def slot_time(self, since: float, until: float) -> dict[str, float]:
        """Seconds that each submitter's job processes were alive in that time."""
        used = dict.fromkeys(self.clusters.values(), 0.0)
        for execution in self.ledger.executions:
            lasted = min(execution.ended or until, until) - max(execution.started, since)
            used[self.clusters[execution.job.split(".")[0]]] += max(0.0, lasted)
        return used

    async def run(self, directory: Path, warm_up_s: float, seconds: float) -> dict[str, float]:
        """Measure both figures; return them by name."""
        keyword = {"max_fetch_wait_s": 2, "fetch_delay_s": 1, "chain_s": CHAIN_S if self.chains else 0}
        agents = [
            AgentProcess(directory, f"sim{number}", self.conninfo, keyword=keyword)
            for number in range(1, HOSTS + 1)
        ]
        hosts = []
        try:
            for agent in agents:
                await agent.start()
                timing = Timing(unclaimed_delay_s=1.0, polling_interval_s=1.0)
                hosts.append(
                    Host(
                        agent.name,
                        connect_to(agent.socket),
                        [SlotSpec()] * SLOTS_EACH,
                        spool=agent.spool,
                        behaviour=BEHAVIOURS["23.9"],
                        timing=timing,
                        ledger=self.ledger,
                        chains=self.chains,
                    )
                )
            for host in hosts:
                host.start()
            await asyncio.sleep(warm_up_s)
            since = time.time()
            await asyncio.sleep(seconds)
            used = self.slot_time(since, time.time())
            late_s = await self._newcomer()
        finally:
            for host in hosts:
                await host.vanish()
            for agent in agents:
                await agent.stop()
        whole = sum(used.values())
        figures = {f"share_of_{group}": used[group] / whole for group in FACTORS}
        figures["slots_in_use"] = whole / seconds
        figures["one_to_two"] = used["group_one"] / used["group_two"]
        figures["two_to_four"] = used["group_two"] / used["group_four"]
        figures["one_to_four"] = used["group_one"] / used["group_four"]
        fair = sum(1 / factor for factor in FACTORS.values())
        figures["worst_deviation_percent"] = max(
            abs(used[group] / whole * factor * fair - 1) * 100 for group, factor in FACTORS.items()
        )
        if self.chains:
            figures["jobs_a_chain"] = self.ledger.counts["started"] / self.ledger.counts["accept"]
        figures["newcomer_starts_after_job_lengths"] = late_s / JOB_S
        return figures

    async def _newcomer(self) -> float:
        asked = time.time()
        self.submit(NEWCOMER, 1)
        [cluster] = [cluster for cluster, group in self.clusters.items() if group == NEWCOMER]
        async with asyncio.timeout(60):
            while True:
                for execution in self.ledger.executions:
                    if execution.job == f"{cluster}.0":
                        return execution.started - asked
                await asyncio.sleep(0.02)


def main() -> None:
    """Run the benchmark and print the figures, each as a line `name: figure`."""
    parser = frame.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="measured, after three half-lives")
    parser.add_argument("--halflife", type=float, default=10.0, help="of the usage, in seconds")
    parser.add_argument("--chains", action="store_true", help="let jobs run in chains")
    parser.add_argument("--trees", metavar="A-B", help="compare groups with a negotiator's, by these seeds")
    options = parser.parse_args()
    if options.trees:
        print(f"furthest from negotiator: {group_trees.compare(options.trees):.3f}")
        return
    with frame.server() as (server, directory):
        server.create_database("queue")
        bench = Bench(server.conninfo("queue"), chains=options.chains)
        bench.prepare(options.halflife)
        for group in FACTORS:
            bench.submit(group, int((options.seconds + 5 * options.halflife) * HOSTS * SLOTS_EACH / JOB_S))
        figures = asyncio.run(bench.run(directory, 3 * options.halflife, options.seconds))
        bench.connection.close()
    print(
        f"{HOSTS * SLOTS_EACH} slots, jobs of {JOB_S:g} s, half-life {options.halflife:g} s", file=sys.stderr
    )
    for figure, value in figures.items():
        print(f"{figure}: {value:.3f}")


if __name__ == "__main__":
    main()
