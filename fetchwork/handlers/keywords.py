"""The sites of a host file: its keywords, each with its queues and its database."""

from __future__ import annotations

import os

from fetchwork.config import HostConfig
from fetchwork.db.database import AsyncDatabase
from fetchwork.handlers.context import Site
from fetchwork.handlers.session import Store

#: a run without an agent is lost after so many updates that did not come
MISSED_UPDATES = 6


def make_sites(
    config: HostConfig, *, agent_id: str | None = None, only: str | None = None
) -> dict[str, Site]:
    """The sites of ``config`` by keyword, lower case as HTCondor compares them.

    Keywords with the same database share its store. Without ``agent_id`` (direct mode) nothing is held.
    """
    stores: dict[str, Store] = {}
    sites: dict[str, Site] = {}
    for name, keyword in config.keywords.items():
        if only is not None and name.lower() != only.lower():
            continue
        database = keyword.database or ""
        if database not in stores:
            stores[database] = Store(
                database,
                AsyncDatabase(
                    config.databases[database].conninfo,
                    size=config.agent.pool_size if agent_id else 1,
                    application_name="fetchwork agent" if agent_id else "fetchwork hook",
                ),
                config.name,
                agent_id=agent_id,
                lease_s=float(config.agent.lease_s) if agent_id else None,
            )
        sites[name.lower()] = Site(
            keyword=name,
            queues=keyword.queues,
            store=stores[database],
            max_fetch_wait_s=float(keyword.max_fetch_wait_s) if agent_id else 0.0,
            ad_bytes=config.host.pipe_buffer_max,
            uid_domain=config.host.uid_domain,
            check_accounts=jobs_change_account(config),
            lease_s=float(MISSED_UPDATES * config.slots.update_interval_s + 60),
        )
    return sites


def jobs_change_account(config: HostConfig) -> bool:
    """Tell whether HTCondor runs each job as its owner: it does if its master is root.

    The agent then runs as root or as the account that the host file names; with ``agent.user`` empty it runs
    as the master does.
    """
    return os.geteuid() == 0 or config.agent.user != ""
