"""Checkpoints at their destination that no run needs: deleted fairly by the access point, as their owners."""

import asyncio
import os
import pwd
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from fetchwork.accesspoint import checkpoints
from fetchwork.accesspoint.checkpoints import Checkpoints
from fetchwork.accesspoint.children import Account, Children
from fetchwork.db.pool import AsyncDatabase
from fetchwork.errors import FetchworkError
from fetchwork.sandbox import hostsettings
from tests.accesspoint.point import AccessPoint
from tests.support.direct_queue import Claimed, DirectQueue
from tests.support.saved_checkpoints import called, save
from tests.support.waiting import until, until_async

#: logs its arguments, its account and its environment; it fails or hangs if the test says so
PLUGIN = """\
#!/bin/sh
case "$*" in
*refused*) echo no; exit 3 ;;
*slow*) sleep 600 ;;
esac
echo "$(id -un) $HOME $SECRET $*" >> {log}
"""


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings that the host's HTCondor reports."""
    values = {"LIBEXEC": "", "CHECKPOINT_CLEANUP_TIMEOUT": "100"}
    monkeypatch.setattr(hostsettings, "ask", lambda *names: [values[name] for name in names])
    return values


@pytest.fixture
def log(directory: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of the clean-up plug-in's calls."""
    program, log = directory / "delete", directory / "deleted"
    program.write_text(PLUGIN.format(log=log))
    program.chmod(0o755)
    log.touch()
    log.chmod(0o666)
    mapfile = directory / "map"
    mapfile.write_text(f"* store:// {program},-x\n")
    settings["CHECKPOINT_DESTINATION_MAPFILE"] = str(mapfile)
    monkeypatch.setattr(checkpoints, "LOOK_S", 0.1)
    monkeypatch.setenv("SECRET", "s3cret")
    return log


@pytest.fixture
async def children() -> AsyncGenerator[Children]:
    zygote = Children(1)
    zygote.start()
    yield zygote
    await zygote.stop()


@pytest.fixture
async def keeping(
    slots: DirectQueue, point_conninfo: str, children: Children, log: Path
) -> AsyncGenerator[Checkpoints]:
    """The part of an access point that deletes all owners' checkpoints."""
    database = AsyncDatabase(point_conninfo, size=4)
    me = os.geteuid()

    async def account(name: str) -> Account:
        if name == "gone":
            raise FetchworkError("no account 'gone' on this machine")
        return Account.of(pwd.getpwnam(name) if me == 0 else pwd.getpwuid(me))

    async def acts() -> bool:
        return True

    part = Checkpoints(database, children, "point", account, acts)
    task = asyncio.ensure_future(part.keep())
    yield part
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await database.close()


def left(slots: DirectQueue, where: str, owner: str, names: list[str], point: str | None = "point") -> str:
    """A job of an owner has saved a checkpoint and left the queue; return the beginning of its URLs."""
    slots.submit({"Owner": owner} if point is None else {"Owner": owner, "FetchWorkAccessPoint": point})
    run = slots.started()
    base = saved(slots, run, where, names)
    slots.finish(run)
    slots.scalar("drop_files")
    return base


def saved(slots: DirectQueue, run: Claimed, where: str, names: list[str], number: int = 0) -> str:
    base = f"store:///{where}/{called(slots, run)}/{number:04d}/"
    save(slots, run, number, base, names)
    return base


def listed(slots: DirectQueue) -> set[str]:
    return {base for (base,) in slots.rows("SELECT base FROM fetchwork.stored_checkpoint")}


async def test_what_no_run_needs_is_deleted_by_itself_as_its_owner(
    slots: DirectQueue, keeping: Checkpoints, log: Path
) -> None:
    others = left(slots, "b", "daemon", ["z"])
    elsewhere = left(slots, "c", "daemon", ["z"], point="elsewhere")
    by_hand = left(slots, "d", "daemon", ["z"], point=None)
    slots.submit(Owner="nobody", FetchWorkAccessPoint="point")
    run = slots.started()
    first = saved(slots, run, "a", ["x", "d/y"])
    kept = saved(slots, run, "a", ["x"], number=1)
    await until_async(lambda: listed(slots) == {kept, elsewhere, by_hand}, "the deletion")
    lines = {line.partition(" -jobad ")[0] for line in log.read_text().splitlines()}
    who = {
        name: name if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        for name in ("nobody", "daemon")
    }
    home = {name: pwd.getpwnam(who[name]).pw_dir for name in who}
    # and no variable of the access point's own
    assert lines == {
        f"{who['nobody']} {home['nobody']}  -x -from {first} -delete x",
        f"{who['nobody']} {home['nobody']}  -x -from {first} -delete d/y",
        f"{who['daemon']} {home['daemon']}  -x -from {others} -delete z",
    }
    slots.finish(run)
    slots.scalar("drop_files")
    await until_async(lambda: keeping.deleted == 3, "the last checkpoint")
    assert kept not in listed(slots)


async def test_what_cannot_be_deleted_is_in_nothing_s_way_and_tried_again(
    slots: DirectQueue,
    keeping: Checkpoints,
    log: Path,
    settings: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings["CHECKPOINT_CLEANUP_TIMEOUT"] = "1"
    monkeypatch.setattr(checkpoints, "FIRST_RETRY_S", 0.2)
    stay = {
        left(slots, "a", "nobody", ["refused"]),
        left(slots, "a", "nobody", ["slow"]),
        left(slots, "a", "gone", ["x"]),
    }
    go = {left(slots, "a", "nobody", ["x"]), left(slots, "a", "daemon", ["x"])}
    await until_async(lambda: not listed(slots) & go, "what can be deleted")
    assert listed(slots) == stay
    # an administrator has mended the plug-in; a file that is being executed cannot be written to
    mended = log.with_name("mended")
    mended.write_text("#!/bin/sh\nexit 0\n")
    mended.chmod(0o755)
    mended.rename(log.with_name("delete"))
    await until_async(lambda: len(listed(slots)) == 1, "another try")


async def test_one_owner_s_thousands_wait_for_their_turn(
    slots: DirectQueue, keeping: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "PASS_S", 0.2)
    keeping._room = asyncio.Semaphore(1)
    left(slots, "a", "daemon", ["x"])
    slots.connection.execute(
        "INSERT INTO fetchwork.stored_checkpoint (cluster_id, proc_id, base, owner, names, access_point)"
        " SELECT cluster_id, proc_id, replace(base, '/0000/', '/' || n || '/'), owner, names, access_point"
        " FROM fetchwork.stored_checkpoint, generate_series(10000, 12000) AS n"
    )
    one = left(slots, "a", "nobody", ["x"])
    await until_async(lambda: one not in listed(slots), "the other's")
    assert len(listed(slots)) > 1000


def test_an_access_point_tells_how_many_it_has_deleted(point: AccessPoint) -> None:
    assert point.status()["checkpoints_deleted"] == 0
    until(lambda: "access_point_started" in point.log())


def test_owners_are_those_that_the_caller_serves(slots: DirectQueue) -> None:
    bases = {owner: left(slots, "a", owner, ["x"]) for owner in ("alice", "bob")}

    def owners(point: str = "point") -> list[str]:
        found: list[str] = slots.scalar("checkpoint_owners", access_point=point)
        return found

    # the tests' role is a member of every other
    assert (owners(), owners("elsewhere")) == (["alice", "bob"], [])

    def of(**which: Any) -> list[str]:
        return [row["base"] for row in slots.call("left_checkpoints", **which)]

    # and an administrator's request deletes no owner's checkpoints
    assert of() == []
    slots.connection.execute("SELECT fetchwork.grant_owner('postgres', 'alice')")
    assert of() == [bases["alice"]]
    assert of(access_point="point", of_owner="alice") == [bases["alice"]]
    assert of(access_point="elsewhere", of_owner="alice") == []
    assert of(access_point="point", of_owner="bob") == []
