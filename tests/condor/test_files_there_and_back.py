"""A description's files, from where it is submitted through a host that shares nothing, and back."""

import os
import pwd
from collections.abc import Callable
from pathlib import Path

from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from tests.waiting import until

SCRIPT = """#!/bin/sh
pwd; cat in.txt; mkdir res; tr a-z A-Z < in.txt > res/up; cp big big.$1
"""


def test_files_of_a_description_go_there_and_come_back(
    make_pool: Callable[..., PersonalPool], public_directory: Callable[[], Path]
) -> None:
    pool = make_pool(slots=2, config="STARTER_UPDATE_INTERVAL = 2\n", host={"files": {"shared": []}})
    home = public_directory() / "home"
    home.mkdir()
    big = os.urandom(3 * 1024 * 1024 + 7)
    for name, data in (("exe", SCRIPT.encode()), ("in.txt", b"hello\n"), ("big", big)):
        (home / name).write_bytes(data)
    # root brings nobody's files back but as their owner
    owner = pwd.getpwuid(os.geteuid() or pwd.getpwnam("nobody").pw_uid)
    if os.geteuid() == 0:
        os.chown(home, owner.pw_uid, owner.pw_gid)
    description = f"""
        initialdir = {home}
        executable = {home}/exe
        arguments = $(Process)
        should_transfer_files = YES
        transfer_input_files = in.txt, big
        transfer_output_files = res/up, big.$(Process)
        transfer_output_remaps = "up = upper.$(Process)"
        output = out.$(Process)
        queue 2
    """
    with Queue(pool.conninfo) as queue, Database(pool.conninfo) as database:
        queue.submit(description, owner=owner.pw_name)
        until(lambda: queue.query() == [], "the end of the jobs")
        assert queue.retrieve() == 2
        for n in range(2):
            first, second = (home / f"out.{n}").read_text().splitlines()
            assert "/dir_" in first
            assert second == "hello"
            assert (home / f"upper.{n}").read_bytes() == b"HELLO\n"
            assert (home / f"big.{n}").read_bytes() == big
        assert {path.name for path in home.iterdir()} == {
            *("exe", "in.txt", "big"),
            *(f"{name}.{n}" for name in ("out", "upper", "big") for n in range(2)),
        }
        # nothing stays where nobody needs it
        until(
            lambda: database.query("SELECT count(*) AS number FROM fetchwork.content")[0]["number"] == 0,
            "the contents to go",
        )
