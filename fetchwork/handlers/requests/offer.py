"""Making offers from fetches' choices: runs are claimed, and printed as the ads that FETCH_WORK prints."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from fetchwork import traceparent
from fetchwork.classad.ads import plain_text
from fetchwork.classad.exprform import expr_text
from fetchwork.codes import HoldCode
from fetchwork.config import PLAIN
from fetchwork.db.calls import matching, runs
from fetchwork.db.calls.call import JsonObject
from fetchwork.errors import ClassAdError, DatabaseRefused, DatabaseUnavailable, FetchworkError, SubmitError
from fetchwork.handlers import overuse
from fetchwork.handlers.context import Answer, Task
from fetchwork.handlers.host import accounts, chains
from fetchwork.handlers.host.chains import Chain
from fetchwork.handlers.host.keywords import KeywordContext
from fetchwork.handlers.host.runs import LiveRun
from fetchwork.handlers.host.session import HostSession
from fetchwork.handlers.starterad import Reader
from fetchwork.handlers.starterend import needs_no_hook
from fetchwork.hook.wire import Reply
from fetchwork.matching.demand import Pair
from fetchwork.matching.rotation import Weighed
from fetchwork.matchmaker.expansion import CannotExpand, has_macro
from fetchwork.matchmaker.messages import Printed
from fetchwork.matchmaker.printing import Run
from fetchwork.matchmaker.processes import MatchmakerUnavailable
from fetchwork.sandbox.offered import CREDENTIALS, at_remote_iwd, has_credentials, has_sandbox, offered

#: seconds for a call: a startd asks again soon enough
DATABASE_S = 5.0
#: lifetime of an offer, until the starter's first hook; long, since that is late if names resolve slowly
OFFER_S = 60.0


#: requests, which the startd rounds up in the ad that it gives to the starter
_REQUESTS = Reader(("RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs"))
#: the number of the job's lost runs; absent if it has none
_LOST = "FetchWorkNumLost"
#: attributes that are not printed for the starter, but added to .job.ad
_READABLE = frozenset(
    (
        "AccountingGroup", "AcctGroup", "AcctGroupUser", "JobBatchName",
        "DAGManJobId", "DAGManNodesLog", "DAGManNodesMask", "DAGNodeName", "DAGParentNodeNames",
        "OAuthServicesNeeded",
        "ShouldTransferFiles", "TransferExecutable", "TransferIn", "WhenToTransferOutput",
    )
)  # fmt: skip


class Claimed(Protocol):
    """The part of a claim that a run's ad is printed from."""

    @property
    def run_id(self) -> int: ...
    @property
    def token(self) -> object: ...
    @property
    def cluster_id(self) -> int: ...
    @property
    def proc_id(self) -> int: ...
    @property
    def owner(self) -> str: ...
    @property
    def has_policy(self) -> bool: ...
    @property
    def ad(self) -> JsonObject: ...
    @property
    def facts(self) -> JsonObject: ...


class Fetch(Protocol):
    """A fetch, as far as an offer needs it."""

    task: Task
    slot_name: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A slot and the choices that it may get, in the order of preference."""

    fetch: Fetch
    choices: Sequence[Weighed]
    exclusive: bool


@dataclass(frozen=True, slots=True)
class Taken:
    """A claimed run, and the choice that it satisfies."""

    run: matching.Claimed
    of: Weighed


async def claim(
    session: HostSession, wanted: Sequence[Wanted], timeout_s: float
) -> list[Taken | FetchworkError | None]:
    """Claim for each slot the first available job of its choices; None for a slot that gets none.

    An error that concerns one slot alone is that slot's result.
    """
    greeting = await session.hello(timeout_s)
    indices: dict[Pair, int] = {}
    slots = [
        {
            "slot": want.fetch.slot_name,
            "exclusive": want.exclusive,
            "choices": [indices.setdefault(_pair(ranked), len(indices) + 1) for ranked in want.choices],
            "weights": _weights(want.choices),
        }
        for want in wanted
    ]
    pairs = list(indices)
    forgotten = session.demand.forgotten
    call = matching.claim_many(
        host_id=greeting.host_id,
        autoclusters=[number for number, _ in pairs],
        prios=[prio for _, prio in pairs],
        hints=[session.positions.hint(*pair) for pair in pairs],
        slots=slots,
        offer_s=OFFER_S,
        lease_s=wanted[0].fetch.task.context.lease_s,
    )
    try:
        # a repeated call would take other jobs
        rows = await session.database.run(call, timeout_s=timeout_s, again=False)
    except DatabaseUnavailable:
        session.has_unheard_claim = True
        raise
    answers: list[Taken | FetchworkError | None] = [None] * len(wanted)
    # if a limit may have changed meanwhile, the slots are woken anyway
    closed = {pairs[row.choice - 1]: row.again_s for row in rows if row.choice and row.again_s is not None}
    if session.demand.forgotten == forgotten:
        session.demand.close(closed, time.monotonic())
    for row in rows:
        if row.slot_number is None:
            continue
        number = row.slot_number - 1
        if row.problem is not None:
            answers[number] = DatabaseRefused(row.problem)
            if row.choice is not None and row.position is not None:
                # so that the next slots do not fail with the same job
                session.positions.took(*pairs[row.choice - 1], row.position)
            continue
        assert row.choice is not None and row.position is not None
        pair = pairs[row.choice - 1]
        taken = Taken(row, next(ranked for ranked in wanted[number].choices if _pair(ranked) == pair))
        session.positions.took(*pair, row.position)
        session.shares.claimed(taken.of.choice.autocluster.submitter, weight=taken.of.weight)
        session.demand.got(pair)
        answers[number] = taken
    _note_what_was_in_vain(session, wanted, answers, closed.keys())
    return answers


def _note_what_was_in_vain(
    session: HostSession,
    wanted: Sequence[Wanted],
    answers: Sequence[Taken | FetchworkError | None],
    closed: Set[Pair],
) -> None:
    """Note the choices that yielded no job: those before the choice that a slot got, or all of them.

    Of ``closed`` ones it is known when they may yield one.
    """
    in_vain: set[Pair] = set()
    for want, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, FetchworkError):
            continue
        for ranked in want.choices:
            if answer is not None and ranked is answer.of:
                break
            in_vain.add(_pair(ranked))
    now = time.monotonic()
    for pair in in_vain - closed:
        session.positions.found_nothing(*pair)
        session.demand.in_vain(pair, now)


def _weights(choices: Sequence[Weighed]) -> float | list[float]:
    """The weights of the choices, or a single number if all are equal."""
    weights = [ranked.weight for ranked in choices]
    return weights if len(set(weights)) > 1 else weights[0]


def _pair(ranked: Weighed) -> Pair:
    return ranked.choice.autocluster.autocluster_id, ranked.choice.prio


async def offer(fetch: Fetch, taken: Taken, problem: str | None) -> Answer | None:
    """Return the answer that offers a claimed run; None if its job is Held, since its ad can't be printed.

    ``problem`` says why matching could not read the ad of its autocluster.
    """
    task, context, session = fetch.task, fetch.task.context, fetch.task.context.session
    claimed, submitter = taken.run, taken.of.choice.autocluster.submitter
    run = live_run(context, fetch.slot_name, claimed)
    run.fetched_by, run.charged = task.request.body, (submitter, taken.of.weight)
    try:
        if problem is not None:
            raise ClassAdError(problem)
        run.chain = _begin_chain(task, run, taken)
        printed = await print_ad(task, run, claimed)
    except MatchmakerUnavailable as error:
        await _withdraw(task, run, f"its ad could not be printed: {error}")
        raise
    except CannotExpand as error:
        # as a schedd does, in its words and with its code
        await _withdraw(task, run, str(error), str(error), HoldCode.UNSPECIFIED)
        return None
    except ClassAdError as error:
        await _withdraw(task, run, "its ad can't be read", f"the job's ad can't be read: {error}")
        return None
    text = printed.text
    if run.chain is not None:
        run.chain.job = text
        text = carrier(text, run)
    if len(text) > context.ad_bytes:
        size = f"the job's ad has {len(text)} bytes when printed; {session.host} reads {context.ad_bytes}"
        await _withdraw(task, run, size, f"{size} (PIPE_BUFFER_MAX)")
        return None
    if printed.remembered and not await _note_match(task, run, printed.remembered):
        return None
    describe(run, printed.text, task.request.body, claimed)
    task.runs.offered(run)

    async def undo() -> None:
        await _withdraw(task, run, "the hook ended before it got the answer")
        session.shares.claimed(submitter, -1.0, taken.of.weight)

    return Answer(Reply(text), "offered", run.slot, run.job, run.run_id, undo=undo)


def live_run(context: KeywordContext, slot: str, claimed: Claimed) -> LiveRun:
    """Return a run that was just claimed."""
    return LiveRun(
        run_id=claimed.run_id,
        token=str(claimed.token),
        context=context,
        slot=slot,
        job=f"{claimed.cluster_id}.{claimed.proc_id}",
        owner=claimed.owner,
        owner_uid=accounts.uid_of(claimed.owner),
        has_policy=claimed.has_policy,
    )


def describe(run: LiveRun, text: bytes, slot_ad: bytes, claimed: Claimed) -> None:
    """Note a run's limits and its facts for .job.ad, by its printed ad and the ad of its slot."""
    run.memory_mib = overuse.memory_limit(text, slot_ad)
    run.disk_kib = overuse.disk_limit(text, slot_ad)
    facts = {name: value for name, value in claimed.facts.items() if name != _LOST}
    run.facts = {**facts, **_REQUESTS.read(text), **_kept_facts(claimed.ad)}


def _begin_chain(task: Task, run: LiveRun, taken: Taken) -> Chain | None:
    """Return the chain that the job of an offer begins; None if it runs by itself."""
    context, slot_ad = run.context, task.request.body
    if not context.chain_s or not needs_no_hook(taken.run.ad, slot_ad) or not chains.allows(slot_ad):
        return None
    if _LOST in taken.run.facts:
        # perhaps it ended its runner: its own starter tells more of its end
        return None
    same = chains.common_part(taken.run.ad)
    if same is None or has_sandbox(taken.run.ad, context.shared) or not os.access(context.runner, os.X_OK):
        return None
    autocluster = taken.of.choice.autocluster
    return Chain(
        first=run.run_id,
        slot=run.slot,
        slot_ad=slot_ad,
        end=time.monotonic() + context.chain_s,
        same=same,
        submitter=autocluster.submitter,
        requests=chains.requests_of(autocluster),
        job=b"",
    )


#: attributes of the first job that the runner handles in the starter's place
_OF_THE_JOB = re.compile(
    rb"^(?:Cmd|Arguments|Args|Environment|In|Out|Err|Iwd|KillSig|RemoveKillSig|HoldKillSig)[ \t]*=[^\n]*\n",
    re.I | re.M,
)


def carrier(text: bytes, run: LiveRun) -> bytes:
    """Return the ad by which the starter runs a chain, from the printed ad of its first job."""
    return (
        _OF_THE_JOB.sub(b"", text)
        + (
            f'Cmd = "{run.context.runner}"\nEnvironment = "FETCHWORK_CHAIN={run.run_id}:{run.token}"\n'
            'Iwd = "/"\nIn = "/dev/null"\nOut = "/dev/null"\nErr = "/dev/null"\nKillSig = "SIGTERM"\n'
        ).encode()
    )


async def print_ad(task: Task, run: LiveRun, claimed: Claimed) -> Printed:
    """Print a claimed job's ad for its slot; raises ClassAdError, CannotExpand, MatchmakerUnavailable."""
    context, session = run.context, run.context.session
    inside = has_sandbox(claimed.ad, context.shared)
    ad = offered(claimed.ad) if inside else at_remote_iwd(claimed.ad)
    if has_credentials(ad):
        ad = {**ad, CREDENTIALS: True}
    if traceparent.ATTRIBUTE in ad:
        ad = {**ad, **_environment(ad, traceparent.variables(ad, run.job, run.run_id))}
    plain = run.chain is None and needs_no_hook(ad, task.request.body)
    starter_log = None
    if run.chain is None or run.chain.first == run.run_id:
        starter_log = await context.starter_logs.make(run.run_id, run.token, run.owner_uid, tells_end=plain)
    # without a file nothing would report the end
    run.plain = plain and starter_log is not None
    no_job_exit = run.plain or run.chain is not None
    return await session.matchmaker.print_ad(
        Run(
            run_id=run.run_id,
            token=run.token,
            cluster_id=claimed.cluster_id,
            proc_id=claimed.proc_id,
            owner=run.owner,
            has_policy=run.has_policy,
            ad=ad,
            starter_log=starter_log,
            hidden={
                name: value
                for name, value in claimed.ad.items()
                if ad is not claimed.ad and ad.get(name) != value and has_macro(value)
            },
        ),
        task.request.body,
        kept=session.kept,
        host=session.host,
        keyword=context.keyword + PLAIN if no_job_exit else context.keyword,
        uid_domain=context.uid_domain,
    )


def _environment(ad: JsonObject, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an ad with further variables, whose values need no quotes.

    Of a variable that comes twice, the last value counts. An expression is left as it is.
    """
    added = [f"{name}={value}" for name, value in variables.items()]
    name = "Environment" if "Environment" in ad or "Env" not in ad else "Env"
    given, delimiter = ad.get(name, ""), " " if name == "Environment" else ad.get("EnvDelim") or ";"
    if not isinstance(given, str) or expr_text(given) is not None:
        return {}
    return {name: str(delimiter).join([given, *added] if given else added)}


async def _note_match(task: Task, run: LiveRun, remembered: JsonObject) -> bool:
    """Store the attributes of the slot that the job's ad remembers; False if its job is Held instead."""
    try:
        await run.context.session.database.run(
            runs.note_match(run_id=run.run_id, token=run.token, remembered=remembered),
            timeout_s=DATABASE_S,
        )
    except (DatabaseRefused, SubmitError) as error:
        # it would be offered and refused again, and its slot would get nothing
        problem = f"the attributes of its slot for the job's ad are refused: {error}"
        await _withdraw(task, run, problem, problem)
        return False
    except FetchworkError as error:
        # the job waits again at once, if the database permits
        with contextlib.suppress(FetchworkError):
            await _withdraw(task, run, f"the attributes of its slot were not written into its ad: {error}")
        raise
    return True


def _kept_facts(ad: JsonObject) -> dict[str, object]:
    """Return the attributes for .job.ad that the queue keeps; no expressions."""
    return {name: value for name, value in ad.items() if name in _READABLE and plain_text(value) is not None}


async def refuse_for_want_of_account(session: HostSession, claimed: matching.Claimed) -> None:
    """Refuse a job whose turn it was, but whose owner has no account on this host.

    HTCondor would accept it and then be silent (startd-protocol, section 5). The refusal counts as a try
    without taking the slot's time; if no host knows the account, the job is Held in the end for that reason.
    """
    await session.database.run(
        runs.refuse_start(
            run_id=claimed.run_id,
            token=claimed.token,
            reason=f"there is no account {claimed.owner} on {session.host}",
            code=HoldCode.FAILED_TO_ACCESS_USER_ACCOUNT,
        ),
        timeout_s=DATABASE_S,
    )


async def _withdraw(
    task: Task,
    run: LiveRun,
    reason: str,
    hold_reason: str | None = None,
    code: int = HoldCode.FAILED_TO_CREATE_PROCESS,
) -> None:
    session = run.context.session
    task.runs.ended(session, run.run_id)
    run.context.forget_starter_log(run.run_id, run.token)
    await session.database.run(
        runs.withdraw(run_id=run.run_id, token=run.token, reason=reason, hold_reason=hold_reason, code=code),
        timeout_s=DATABASE_S,
    )
