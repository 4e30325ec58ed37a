"""``fetchwork hook NAME``: one hook's work in this process, without an agent ("direct mode")."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import stat
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fetchwork import config as host_file
from fetchwork.cli import options
from fetchwork.codes import HookStatus
from fetchwork.errors import AgentUnavailable, ConfigError, FetchworkError, one_line
from fetchwork.hook import adfiles, client
from fetchwork.hook.wire import HOOKS, MAX_BODY, Reply, Request

if TYPE_CHECKING:
    from fetchwork.agent.direct import UnwatchedRuns
    from fetchwork.handlers.context import Answer
    from fetchwork.handlers.keywords import KeywordContext
    from fetchwork.handlers.session import HostSession

#: exit status of JOB_EXIT that tells the waiting hook to keep the report (EX_TEMPFAIL)
TRY_LATER = 75
MAINTENANCE_S = 5.0
REPORT_S = 1.0


@click.command(hidden=True)
@click.argument("name", type=click.Choice(HOOKS))
@click.argument("arg", required=False, default="")
@options.host_file_option
@click.option("--keyword", "-k", help="The hook keyword; needed where the host file has several.")
def cli(name: str, arg: str, file: Path | None, keyword: str | None) -> None:
    """Run one hook without an agent: its ads on stdin, its answer on stdout.

    The hooks call this where no agent answers. They pass the rest in the environment:
    FETCHWORK_DIRECT_CONFIG, FETCHWORK_KEYWORD, FETCHWORK_SLOT, FETCHWORK_DEADLINE_MS and FETCHWORK_CHECK.

    \b
    Example:
      fetchwork hook fetch_work --keyword FETCHWORK < slot.ad
    """
    started_at = time.monotonic()
    # one request, and the process ends: a search for cycles among its modules finds nothing
    gc.disable()
    path = Path(file or os.environ.get("FETCHWORK_DIRECT_CONFIG") or host_file.default_file())
    config = host_file.load(path)
    request = Request(
        name,
        sys.stdin.buffer.read(MAX_BODY),
        keyword=keyword or os.environ.get("FETCHWORK_KEYWORD") or _only_keyword(config),
        arg=arg,
        slot=os.environ.get("FETCHWORK_SLOT") or os.environ.get("_CONDOR_SLOT", ""),
        deadline_ms=int(os.environ.get("FETCHWORK_DEADLINE_MS") or 20_000),
        check=os.environ.get("FETCHWORK_CHECK", ""),
    )
    reply = asyncio.run(_answer(config, path, request, started_at + request.deadline_ms / 1000))
    sys.exit(_deliver(request, reply))


def _only_keyword(config: host_file.HostConfig) -> str:
    if len(config.keywords) > 1:
        raise ConfigError([f"which keyword? the host file has {', '.join(config.keywords)}; say --keyword"])
    return next(iter(config.keywords))


async def _answer(config: host_file.HostConfig, path: Path, request: Request, end: float) -> Reply:
    from fetchwork import handlers
    from fetchwork.agent.starters import starter_of
    from fetchwork.handlers.context import Caller
    from fetchwork.handlers.keywords import jobs_change_account, make_contexts
    from fetchwork.handlers.runs import Runs
    from fetchwork.process import Process

    contexts = make_contexts(config)
    context = contexts.get(request.keyword.lower())
    if context is None:
        raise ConfigError([f"keyword '{request.keyword}' is not in the host file"])
    # the process itself has the database's credentials, so there is no right to check. It took the hook's
    # place, so the starter is above it.
    hook = Process.find(os.getpid())
    starter = starter_of(hook) if hook else None
    caller = Caller(os.geteuid(), trusted=True, starter=starter.key if starter else None)
    try:
        if request.name == "fetch_work":
            # matching and what looks after runs: only a fetch needs them
            from fetchwork.agent import direct

            runs = await _look(config, contexts, context, end)
            await _maintain(context.session)
            if jobs_change_account(config) and not _others_may_read(path):
                # PREPARE_JOB, as the job's account, could not do without the agent: nothing would start
                raise AgentUnavailable(f"no agent answers, and jobs' accounts can't read '{path}'")
            task = handlers.Task(request, caller, context, runs, end)
            answer = await handlers.handle(task, fetch_work=lambda task: direct.fetch(task, runs))
            if answer.slot is not None and end - time.monotonic() > 2 * REPORT_S:
                await _report(context, request.body, answer)
        else:
            answer = await handlers.handle(handlers.Task(request, caller, context, Runs(), end))
    except FetchworkError as error:
        return Reply(code="unavailable", message=one_line(str(error)))
    finally:
        for each in contexts.values():
            await each.session.close()
    return answer.reply


def _others_may_read(path: Path) -> bool:
    return bool(path.stat().st_mode & stat.S_IROTH)


async def _look(
    config: host_file.HostConfig, contexts: dict[str, KeywordContext], context: KeywordContext, end: float
) -> UnwatchedRuns:
    """The runs of this host, looked after as far as a fetch can do it without an agent."""
    from fetchwork.agent.direct import UnwatchedRuns
    from fetchwork.agent.replay import Replay
    from fetchwork.handlers.keywords import make_starter_logs
    from fetchwork.hook.spool import Spool

    spool = Spool(str(config.agent.spool))
    replay = Replay(spool, contexts, frozenset({0, os.geteuid()}))
    runs = UnwatchedRuns(replay, make_starter_logs(config))
    await runs.look(context, max(0.1, min(MAINTENANCE_S, end - time.monotonic())))
    return runs


async def _maintain(session: HostSession) -> None:
    """Where no agent does what the queue needs now and then, fetches do: before they claim, not for long."""
    from fetchwork.handlers import maintenance

    with contextlib.suppress(FetchworkError, TimeoutError):
        async with asyncio.timeout(MAINTENANCE_S):
            await maintenance.maintain_queue(session)
            await maintenance.do_leader_tasks(session)


async def _report(context: KeywordContext, body: bytes, answer: Answer) -> None:
    """Let people see the slot that fetched, as an agent would; nothing depends on it."""
    from fetchwork.agent.slots import SlotReports

    slots = SlotReports()
    slots.answered(context, body, answer)
    with contextlib.suppress(FetchworkError, TimeoutError):
        async with asyncio.timeout(REPORT_S):
            await slots.remember(context.session, REPORT_S)
            await slots.report(context.session)


def _deliver(request: Request, reply: Reply) -> int:
    """Do with the reply what a hook does, and return its exit status."""
    problem = reply.stderr or (reply.message or reply.code if reply.code else "")
    if problem:
        print(f"fetchwork {request.name}: {problem}", file=sys.stderr)
    if reply.code:
        if request.name == "prepare_job":
            text = problem.replace('"', "'").replace("\\", "/")
            print(f'HookStatusCode = {HookStatus.NOT_NOW}\nHookStatusMessage = "fetchwork: {text}"')
        if request.name == "job_exit" and reply.code not in ("bad_request", "denied"):
            return TRY_LATER
        return 0 if request.name == "fetch_work" else 1
    if reply.signal:
        client.signal_job(request.body, reply.pid, reply.signal)
    body, problem = adfiles.write(reply.body)
    if problem:
        print(f"fetchwork {request.name}: {problem}", file=sys.stderr)
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()
    return reply.exit
