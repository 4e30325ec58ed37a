"""Slots and hosts: the map of the pool, and the page of one host."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from fetchwork.db.calls import reading
from fetchwork.page import questions
from fetchwork.page.acting import ActingSession
from fetchwork.page.problem import Problem
from fetchwork.page.tables import natural
from fetchwork.queue.reading.views import Json, Row

#: slots that are shown one by one; of a larger pool each host is one bar
MOST_SLOTS = 2000
#: slots of a constraint that are shown, one page of the database's rows
FIRST_SLOTS = 1000
#: hosts from which the map groups them by their names
MANY_HOSTS = 24
#: hosts in the table below the map
MOST_HOSTS = 200
#: ended runs of a host that its page shows, and that it counts
LAST_RUNS = 50
MOST_ENDS = 10_000
_ACTIVE = ("Busy", "Suspended")

_CELLS = """
SELECT
    s.machine,
    lower(
        CASE WHEN s.state = 'Claimed' AND s.activity IN ('Busy', 'Suspended') THEN s.activity ELSE s.state END
    ) AS cell,
    count(*) AS slots, sum(greatest(s.cpus, 1))::float8 AS cores, coalesce(sum(s.gpus), 0)::bigint AS gpus
FROM fetchwork.slots AS s
GROUP BY 1, 2
ORDER BY 1, 2
"""

_LIVE = """
SELECT
    r.jobid, r.owner, r.remotehost, r.state,
    extract(epoch FROM coalesce(r.started_at, r.claimed_at))::float8 AS at
FROM fetchwork.runs AS r
WHERE r.host = %s AND r.ended_at IS NULL
ORDER BY r.claimed_at
"""

# the last hour's ends: by what happened, and the last ones
_ENDED = """
WITH ended AS MATERIALIZED (
    SELECT
        r.jobid, r.owner, r.remotehost, r.outcome, r.reason, r.exitcode, r.exitsignal,
        extract(epoch FROM r.started_at)::float8 AS started, extract(epoch FROM r.ended_at)::float8 AS ended
    FROM ({ends}) AS r
)
SELECT e.*, t.ends, t.failed
FROM ended AS e
CROSS JOIN (
    SELECT
        count(*) AS ends,
        count(*) FILTER (
            WHERE d.outcome <> 'completed' OR d.exitcode <> 0 OR d.exitsignal IS NOT NULL
        ) AS failed
    FROM ended AS d
) AS t
ORDER BY e.ended DESC
LIMIT %s
"""


def pool(session: ActingSession, *, constraint: str) -> Json:
    """The hosts, those with problems first, each with its ``block`` of the map; and the slots' ads.

    A large pool without a constraint has no ``slots``: the block of a host is then one bar. With a constraint
    they are the first ``FIRST_SLOTS`` that it selects; ``more``: it may select others, too.
    """
    hosts = questions.listed(session, of="hosts")
    more = False
    slots: list[Json] | None = None
    cells = [] if constraint else session.database.query(_CELLS)
    if sum(row["slots"] for row in cells) <= MOST_SLOTS:
        limit = FIRST_SLOTS if constraint else MOST_SLOTS
        slots = _slots(session, constraint, limit=limit)
        more = bool(constraint) and len(slots) == limit
        blocks = slot_map(slots)
    else:
        blocks = bars(cells)
    shown = [
        {
            **ad,
            "block": block,
            "Alerts": ", ".join(problems(ad)),
            "Slots": sum(block["counts"].values()) if block else 0,
        }
        for ad in hosts
        if (block := blocks.get(ad["Machine"])) or not constraint
    ]
    shown.sort(key=lambda ad: (not ad["Alerts"], natural(ad["Machine"])))
    return {"hosts": shown, "slots": slots, "more": more, "most_hosts": MOST_HOSTS}


def groups(hosts: Sequence[Json]) -> list[tuple[str, list[Json]]]:
    """Hosts by their names without the numbers, 'node*.site'; one nameless group if they are few or alike.

    The groups are in the order of their first hosts.
    """
    found: dict[str, list[Json]] = {}
    for ad in hosts:
        found.setdefault(re.sub("[0-9]+", "*", ad["Machine"]), []).append(ad)
    if len(hosts) < MANY_HOSTS or not 1 < len(found) <= len(hosts) / 2:
        return [("", list(hosts))]
    return list(found.items())


def summed(hosts: Sequence[Json]) -> Json:
    """A group of hosts: its cells by state, its hosts with alerts, and the block of its whole as a bar."""
    counts: dict[str, int] = {}
    for ad in hosts:
        for cell, slots in (ad["block"] or {"counts": {}})["counts"].items():
            counts[cell] = counts.get(cell, 0) + slots
    cells = [
        {"machine": "", "cell": cell, "slots": slots, "cores": slots, "gpus": 0}
        for cell, slots in sorted(counts.items())
    ]
    alerts = sum(1 for ad in hosts if ad["Alerts"])
    return {"counts": counts, "alerts": alerts, "block": bars(cells).get("")}


def host(session: ActingSession, *, name: str) -> Json:
    """A host, its slots and its running jobs; raises Problem."""
    here = f"Machine == {json.dumps(name)}"
    found = questions.listed(session, of="hosts", constraint=here)
    if not found:
        raise Problem(404, "not found", f"no host '{name}' has asked for work")
    slots = _slots(session, here)
    return {
        "host": found[0],
        "problems": problems(found[0]),
        "slots": slots,
        "block": slot_map(slots).get(name),
        "runs": session.database.query(_LIVE, [name]),
    }


def _slots(session: ActingSession, constraint: str, *, limit: int = -1) -> list[Json]:
    found = questions.listed(session, of="slots", constraint=constraint, limit=limit)
    return sorted(found, key=lambda ad: (natural(ad["Machine"]), natural(ad["Name"])))


def host_hour(session: ActingSession, *, name: str) -> Json:
    """The runs that ended on a host in the last hour: their numbers, and the last ones."""
    ends, parameters = reading.host_ends(host=name, most=MOST_ENDS).statement()
    rows = session.database.query(_ENDED.format(ends=ends), [*parameters, LAST_RUNS])
    return {
        "rows": rows,
        "most": MOST_ENDS,
        **({key: rows[0][key] if rows else 0 for key in ("ends", "failed")}),
    }


def problems(ad: Json) -> list[str]:
    """A host's alerts, for people."""
    found = []
    if not ad.get("Alive"):
        found.append("silent" if ad.get("AgentVersion") else "without an agent")
    if ad.get("BlackHole"):
        found.append("fails one job after the other")
    if ad.get("CopiedSince"):
        found.append("its identity was found on two machines")
    return found


def slot_map(slots: Sequence[Row]) -> dict[str, Json]:
    """The slots of each host as an SVG draws them: 240 units wide, a cell as wide as its cores.

    ``paths`` has the cells by state, ``counts`` their numbers, ``height`` the units of all rows. The state is
    the activity of a claimed slot that works, the state of any other one, in lower case; ``gpus`` marks cells
    with GPUs.
    """
    hosts: dict[str, Json] = {}
    for ad in slots:
        host = hosts.setdefault(ad["Machine"], {"paths": {}, "counts": {}, "at": (0, 0), "height": 14})
        state, activity = str(ad.get("State", "unknown")), str(ad.get("Activity", ""))
        cell = (activity if state == "Claimed" and activity in _ACTIVE else state).lower()
        width = int(min(60, max(10, 10 * (ad.get("Cpus") or 1))))
        x, y = host["at"]
        if x + width > 240:
            x, y = 0, y + 14
        host["at"] = (x + width, y)
        host["height"] = y + 14
        paths = host["paths"]
        paths[cell] = paths.get(cell, "") + f"M{x + 1} {y + 1}h{width - 2}v12h-{width - 2}z"
        if ad.get("GPUs"):
            paths["gpus"] = paths.get("gpus", "") + f"M{x + 3} {y + 7}h4"
        host["counts"][cell] = host["counts"].get(cell, 0) + 1
    return hosts


def bars(cells: Sequence[Row]) -> dict[str, Json]:
    """Each host of a large pool as one bar of 240 units, with the shares of its cores by state.

    The form of a block is that of ``slot_map``.
    """
    cores: dict[str, float] = {}
    for row in cells:
        cores[row["machine"]] = cores.get(row["machine"], 0) + row["cores"]
    hosts: dict[str, Json] = {}
    for row in cells:
        host = hosts.setdefault(row["machine"], {"paths": {}, "counts": {}, "at": 0.0, "height": 14})
        width = 240 * row["cores"] / cores[row["machine"]]
        cell = row["cell"] or "unknown"
        host["paths"][cell] = f"M{host['at']:.0f} 1h{width:.0f}v12h-{width:.0f}z"
        host["counts"][cell] = row["slots"]
        if row["gpus"]:
            host["paths"]["gpus"] = host["paths"].get("gpus", "") + f"M{host['at'] + 3:.0f} 7h4"
        host["at"] += width
    return hosts
