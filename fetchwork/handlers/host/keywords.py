"""The hook keywords of a host file, with their queues and databases."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TypedDict

from fetchwork.config import HostConfig
from fetchwork.config.identity import identity_path
from fetchwork.credentials.keys import KeyFile
from fetchwork.db.pool import AsyncDatabase
from fetchwork.handlers.host.hostcredentials import HostCredentials
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.host.slotad import SlotAds
from fetchwork.handlers.host.starterlog import Fault, StarterLogs
from fetchwork.hook.wire import RUNNER

#: a run that its agent does not see alive is lost after so many missed updates
MISSED_UPDATES = 6


@dataclass(frozen=True, slots=True)
class KeywordContext:
    """A hook keyword of this host: its queues, and their database."""

    keyword: str
    queues: tuple[str, ...]
    session: HostSession
    #: the files in which starters write why they can't start a job
    starter_logs: StarterLogs
    #: seconds that a fetch may wait for work; with 0 it does not wait
    max_fetch_wait_s: float = 0.0
    #: the most bytes of an ad that this host's startd reads
    ad_bytes: int = 10240
    uid_domain: str | None = None
    #: offer only jobs whose owner has an account on this host
    check_accounts: bool = True
    #: a run that is silent for so long is lost
    lease_s: float = 1800.0
    #: directories that this host shares with the submit hosts
    shared: tuple[str, ...] = ("/",)
    #: opens the credentials of jobs; None without the pool's key and a key of this host
    credentials: HostCredentials | None = None
    #: REPLY_FETCH reports the startd's reply to an offer; else the start or the slot's next fetch shows it
    is_told_replies: bool = True
    #: seconds for which one starter may run jobs one after the other; 0: never
    chain_s: float = 0.0
    #: the program that does so
    runner: str = ""
    #: HTCondor's ads of this host's slots
    slot_ads: SlotAds = field(default_factory=SlotAds)

    def can_open_credentials(self) -> bool:
        """Whether a job that needs credentials can have them here."""
        return self.credentials is not None and self.credentials.usable()

    async def starter_fault(self, run_id: int, token: str) -> Fault | None:
        """Return the starter's own reason why the job did not start; None if it wrote none."""
        return await self.starter_logs.fault(run_id, token)

    def forget_starter_log(self, run_id: int, token: str) -> None:
        """Remove the starter log of a run that is over."""
        self.starter_logs.forget(run_id, token)


def make_contexts(config: HostConfig, *, agent_id: str) -> dict[str, KeywordContext]:
    """Return the keywords of ``config`` by name, in lower case since HTCondor ignores case.

    Keywords with the same database share its session.
    """
    sessions: dict[str, HostSession] = {}
    credentials: dict[str, HostCredentials] = {}
    contexts: dict[str, KeywordContext] = {}
    starter_logs = make_starter_logs(config)
    slot_ads = SlotAds()
    for name, keyword in config.keywords.items():
        database = keyword.database or ""
        if database not in sessions:
            sessions[database] = HostSession(
                database,
                AsyncDatabase(
                    config.databases[database].conninfo,
                    size=config.agent.pool_size,
                    application_name="fetchwork agent",
                ),
                config.name,
                agent_id=agent_id,
                lease_s=float(config.agent.lease_s),
            )
            sessions[database].signals_jobs = config.agent_updates
            key_file = config.databases[database].credential_key
            own = identity_path(config.databases[database].conninfo)
            if key_file is not None or own is not None:
                keys = KeyFile(key_file) if key_file is not None else None
                credentials[database] = HostCredentials(sessions[database], keys, own)
        contexts[name.lower()] = KeywordContext(
            keyword=name,
            session=sessions[database],
            check_accounts=jobs_change_account(config),
            starter_logs=starter_logs,
            credentials=credentials.get(database),
            slot_ads=slot_ads,
            **_changeable(config, name),
        )
    return contexts


class _Changeable(TypedDict):
    """Settings that a running agent takes from a changed host file."""

    queues: tuple[str, ...]
    max_fetch_wait_s: float
    ad_bytes: int
    uid_domain: str | None
    lease_s: float
    shared: tuple[str, ...]
    is_told_replies: bool
    chain_s: float
    runner: str


def _changeable(config: HostConfig, keyword: str) -> _Changeable:
    return {
        "queues": config.keywords[keyword].queues,
        "max_fetch_wait_s": float(config.keywords[keyword].max_fetch_wait_s),
        "ad_bytes": config.host.pipe_buffer_max,
        "uid_domain": config.host.uid_domain,
        "lease_s": float(MISSED_UPDATES * config.slots.update_interval_s + 60),
        "shared": tuple(map(str, config.files.shared)),
        "is_told_replies": config.is_told_replies(keyword),
        # the agent must be able to end one job of a chain, and a job's account must be its Owner's alone
        "chain_s": float(config.keywords[keyword].chain_s)
        if config.agent_updates and jobs_change_account(config)
        else 0.0,
        "runner": str(config.hooks(keyword) / RUNNER),
    }


def change_contexts(contexts: dict[str, KeywordContext], config: HostConfig) -> None:
    """Take over changed settings of the known keywords; raises nothing."""
    for name in config.keywords:
        known = contexts.get(name.lower())
        if known is not None:
            contexts[name.lower()] = replace(known, **_changeable(config, known.keyword))


def make_starter_logs(config: HostConfig) -> StarterLogs:
    """The files that an agent of this host gives to starters."""
    spool = config.agent.spool
    return StarterLogs(spool.with_name(f"{spool.name}.starter"), of_users=jobs_change_account(config))


def jobs_change_account(config: HostConfig) -> bool:
    """Whether HTCondor runs each job as its owner: it does if its master is root.

    The agent then runs as root or as the account that the host file names; with an empty ``agent.user`` it
    runs as the master does.
    """
    return os.geteuid() == 0 or config.agent.user != ""
