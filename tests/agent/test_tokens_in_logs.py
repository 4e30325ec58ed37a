"""A run's token appears in no log of PostgreSQL, even if the server logs all that it can."""

from collections.abc import Callable

import psycopg
import pytest

from fetchwork.classad.ads import parse_old
from fetchwork.db.calls import runs
from fetchwork.db.calls.call import proof
from fetchwork.errors import FetchworkError
from fetchwork.pool.postgres import PostgresServer
from fetchwork.process import Process
from tests.agent.conftest import EXITED, RUNNING, Hooks, with_attributes

# every setting that logs statements, their parameters, and errors
LOGGED = {
    "log_statement": "all",
    "log_min_duration_statement": "0",
    "log_duration": "on",
    "log_min_error_statement": "debug5",
    "log_error_verbosity": "verbose",
    "log_parameter_max_length": "-1",
    "log_parameter_max_length_on_error": "-1",
    "debug_print_parse": "on",
    "debug_print_plan": "on",
}


@pytest.fixture
def logged(postgres: PostgresServer, conninfo: str) -> Callable[[], str]:
    """The server logs all from now on; call it for the text logged since then."""
    name = psycopg.conninfo.conninfo_to_dict(conninfo)["dbname"]
    for setting, value in LOGGED.items():
        postgres.query(f"ALTER DATABASE \"{name}\" SET {setting} = '{value}'")
    start = postgres.log.stat().st_size

    def told() -> str:
        with postgres.log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    return told


async def test_no_token_is_in_the_servers_log(logged: Callable[[], str], hooks: Hooks) -> None:
    tokens = []
    for n in range(4):
        job = hooks.submit(ad={"PeriodicHold": "/Expr(ImageSize > 100000000)/"})
        ad = await hooks.fetch()
        tokens.append(str(parse_old(ad)["FetchWorkToken"]))
        if n == 3:
            await hooks.reply("reject", ad)
            continue
        await hooks.reply("accept", ad)
        await hooks.start(ad)
        await hooks.start(ad, starter=Process(99, 9))
        await hooks.update(ad, **RUNNING, ImageSize=1000)
        if n == 0:
            hooks.call("remove", jobs=[job])
            await hooks.update(ad, **RUNNING)
            await hooks.exit(ad, "remove", **EXITED)
        elif n == 1:
            await hooks.start(ad, check="Iwd '/no/such' does not exist")
            await hooks.exit(ad, **EXITED, ExitCode=3)
            await hooks.exit(ad, **EXITED, ExitCode=3)  # a second time: answered from the history
            await hooks.update(ad, **RUNNING)
        else:
            # the server refuses the call, and logs the refused statement
            wrong = with_attributes(ad, FetchWorkRunId=1)
            await hooks.exit(wrong, **EXITED, ExitCode=3)
            with pytest.raises(FetchworkError):
                hooks.database.run(runs.accept(run_id=1, token=tokens[-1]))
            with pytest.raises(FetchworkError):
                hooks.database.run(runs.start(run_id=2**70, token=tokens[-1], starter=None))
            await hooks.exit(ad, "evict", **EXITED)
    log = logged()
    # the log really has all of these calls
    for statement in ("fetchwork.claim(", "fetchwork.start(", "fetchwork.heartbeat(", "fetchwork.finish("):
        assert statement in log
    assert "the token is not that of run 1" in log
    assert proof(tokens[1]) in log
    for token in tokens:
        assert token not in log and token.replace("-", "") not in log


async def test_what_the_log_has_is_not_believed_of_a_hook(hooks: Hooks, conninfo: str) -> None:
    hooks.submit()
    ad = await hooks.started_job()
    in_log = proof(str(parse_old(ad)["FetchWorkToken"]))
    forged = with_attributes(ad, FetchWorkToken=in_log)
    # the first agent remembers the run, the second asks the database
    for agent in (hooks, Hooks(conninfo)):
        answer = await agent.exit(forged, **EXITED, ExitCode=0)
        assert answer.outcome != "completed"
        await agent.close()
    assert hooks.database.query("SELECT job_status FROM fetchwork.job")[0]["job_status"] == 2


def test_a_proof_is_of_one_token_in_any_spelling() -> None:
    token = "0f9C7aee-9b3d-4a0f-8c5c-0123456789ab"
    assert proof(token) == proof(token.upper()) != proof(token[:-1] + "c")
    assert proof("no token") == "no token"
