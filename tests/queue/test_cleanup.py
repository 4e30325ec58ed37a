"""Checkpoints at their destination that no run needs: the rights to delete them, and the deleting program."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from fetchwork.sandbox import hostsettings
from tests.queue.conftest import Run
from tests.support.direct_queue import Claimed, DirectQueue
from tests.support.saved_checkpoints import called, save

DELETE = """\
#!/bin/sh
echo "$@" >> {log}
case "$*" in *refused*) echo no; exit 3;; esac
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calls of the clean-up plug-in."""
    (tmp_path / "libexec").mkdir()
    for name in ("short", "long"):
        program = tmp_path / "libexec" / name
        program.write_text(DELETE.format(log=tmp_path / "log"))
        program.chmod(0o755)
    mapfile = tmp_path / "map"
    mapfile.write_text(
        f"# comment\n* store:// short,-x\n*   store:///long   {tmp_path}/libexec/long,-prefix,\\0\n"
    )
    values = {
        **{"CHECKPOINT_DESTINATION_MAPFILE": str(mapfile), "LIBEXEC": str(tmp_path / "libexec")},
        "CHECKPOINT_CLEANUP_TIMEOUT": "20",
    }
    monkeypatch.setattr(hostsettings, "ask", lambda *names: [values[name] for name in names])
    return tmp_path / "log"


def checkpoint(slots: DirectQueue, run: Claimed, number: int, where: str, names: Sequence[str]) -> str:
    """Save a checkpoint at a destination; return the beginning of its URLs."""
    base = f"store:///{where}/{called(slots, run)}/{number:04d}/"
    save(slots, run, number, base, names)
    return base


def left(slots: DirectQueue) -> list[str]:
    return [row["base"] for row in slots.call("left_checkpoints")]


def test_what_a_later_one_has_replaced_and_what_ended_jobs_left_is_deleted(
    slots: DirectQueue, log: Path, fetchwork: Run
) -> None:
    slots.connection.execute("SELECT fetchwork.grant_owner('postgres', 'alice')")
    slots.submit()
    run = slots.started()
    first = checkpoint(slots, run, 0, "a", ["x", "d/y"])
    assert left(slots) == []
    second = checkpoint(slots, run, 1, "long", ["x"])
    # told twice
    checkpoint(slots, run, 1, "long", ["x"])
    assert left(slots) == [first]
    told = fetchwork("checkpoints", "--clean-up")
    assert (told.status, told.out) == (0, f"{first}: deleted\n")
    lines = [line.split(" -jobad ")[0] for line in log.read_text().splitlines()]
    assert lines == [f"-x -from {first} -delete d/y", f"-x -from {first} -delete x"]
    assert left(slots) == []
    slots.finish(run)
    slots.scalar("drop_files")
    assert left(slots) == [second]
    log.unlink()
    assert fetchwork("checkpoints", "--clean-up").out == f"{second}: deleted\n"
    assert log.read_text().startswith(f"-prefix store:///long -from {second} -delete x -jobad ")
    assert fetchwork("checkpoints", "--clean-up").out == ""


def test_what_cannot_be_deleted_is_told_and_stays(slots: DirectQueue, log: Path, fetchwork: Run) -> None:
    slots.connection.execute("SELECT fetchwork.grant_owner('postgres', 'alice')")
    slots.submit()
    run = slots.started()
    refused = checkpoint(slots, run, 0, "a", ["refused"])
    deleted = checkpoint(slots, run, 1, "a", ["fine"])
    slots.finish(run)
    slots.scalar("drop_files")
    told = fetchwork("checkpoints", "--clean-up")
    assert told.status == 1
    assert sorted(told.out.splitlines()) == [
        f"{refused}: '{log.parent}/libexec/short' ends with 3: no",
        f"{deleted}: deleted",
    ]
    assert left(slots) == [refused]


def test_what_nobody_can_delete_is_in_nothings_way(slots: DirectQueue, log: Path, fetchwork: Run) -> None:
    slots.connection.execute("SELECT fetchwork.grant_owner('postgres', 'alice')")
    slots.submit()
    run = slots.started()
    deleted = checkpoint(slots, run, 0, "a", ["fine"])
    slots.finish(run)
    slots.scalar("drop_files")
    # a page of them
    slots.connection.execute(
        "INSERT INTO fetchwork.stored_checkpoint (cluster_id, proc_id, base, owner, names, stored_at)"
        " SELECT cluster_id, proc_id, 'other' || replace(base, '0000', n::text), owner, names,"
        " stored_at - interval '1 day'"
        " FROM fetchwork.stored_checkpoint, generate_series(1, 1000) AS n"
    )
    told = fetchwork("checkpoints", "--clean-up").out.splitlines()
    assert len(told) == 1001
    assert told[-1] == f"{deleted}: deleted"
    assert all("no clean-up plug-in is registered" in line for line in told[:-1])


def test_what_is_another_s_or_in_use_is_not_forgotten(slots: DirectQueue) -> None:
    slots.submit()
    run = slots.started()
    base = checkpoint(slots, run, 0, "a", ["x"])
    cluster, proc = map(int, run.job.split("."))
    this = {"cluster": cluster, "proc": proc, "base": base}
    slots.connection.execute("SELECT fetchwork.grant_owner('postgres', 'alice')")
    assert not slots.scalar("forget_checkpoint", **this)
    slots.finish(run)
    slots.scalar("drop_files")
    slots.connection.execute("DELETE FROM fetchwork.owner_grant")
    assert left(slots) == []
    assert not slots.scalar("forget_checkpoint", **this)
    slots.connection.execute("SELECT fetchwork.grant_owner('postgres', 'alice')")
    assert slots.scalar("forget_checkpoint", **this)
    assert not slots.scalar("forget_checkpoint", **this)


@pytest.mark.parametrize(
    "elsewhere",
    [
        "store:///x/",
        "store:///x/0000/",
        "store:///x/{}/",
        "store:///x/{}/0000/more/",
        "store:///x/not{}/0000/",
        "store:///x/{}x/0000/",
        "store:///x/{}/000/",
    ],
)
def test_a_host_can_have_nothing_deleted_but_its_job_s_checkpoints(
    slots: DirectQueue, elsewhere: str
) -> None:
    slots.connection.execute("SELECT fetchwork.grant_owner('postgres', 'alice')")
    slots.submit()
    run = slots.started()
    save(slots, run, 0, elsewhere.format(called(slots, run)), ["thesis"])
    own = checkpoint(slots, run, 1, "x", ["y"])
    slots.finish(run)
    slots.scalar("drop_files")
    assert left(slots) == [own]
