"""A description's files, from the submit directory to a host that shares nothing, and back."""

import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.db.database import Database
from fetchwork.pool import PersonalPool
from fetchwork.queue import Queue
from tests.condor.file_jobs import FileJobs
from tests.support.by_name import scalar
from tests.support.sandboxes import submit_with_plugin
from tests.support.waiting import until

SCRIPT = """#!/bin/sh
pwd; cat in.txt; mkdir res; tr a-z A-Z < in.txt > res/up; cp big big.$1
"""


#: seconds for one run of a plugin; the minimum that a host may set
LIMIT_S = 10


@pytest.fixture(scope="module")
def brief_pool(suite: str, make_pool: Callable[..., PersonalPool]) -> PersonalPool:
    """A host that shares nothing and waits for no plugin."""
    host = {"files": {"shared": [], "plugin_limit_s": LIMIT_S}}
    return make_pool(slots=2, config="STARTER_UPDATE_INTERVAL = 2\n", host=host)


@pytest.fixture
def home(public_directory: Callable[[], Path]) -> Path:
    """The submit directory."""
    home = public_directory() / "home"
    home.mkdir()
    return home


def give(home: Path) -> str:
    """Give the directory's files to its owner; return the owner's name. Root brings files back only as their
    owner.
    """
    owner = pwd.getpwuid(os.geteuid() or pwd.getpwnam("nobody").pw_uid)
    if os.geteuid() == 0:
        for path in (home, *home.rglob("*")):
            os.chown(path, owner.pw_uid, owner.pw_gid, follow_symlinks=False)
    return owner.pw_name


def test_files_of_a_description_go_there_and_come_back(brief_pool: PersonalPool, home: Path) -> None:
    pool = brief_pool
    big = os.urandom(3 * 1024 * 1024 + 7)
    for name, data in (("exe", SCRIPT.encode()), ("in.txt", b"hello\n"), ("big", big)):
        (home / name).write_bytes(data)
    owner = give(home)
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
        queue.submit(description, owner=owner)
        until(lambda: queue.query() == [], "the end of the jobs")
        assert queue.retrieve() == 2
        for n in range(2):
            first, second = (home / f"out.{n}").read_text().splitlines()
            assert "/dir_" in first
            assert second == "hello"
            assert (home / f"upper.{n}").read_bytes() == b"HELLO\n"
            assert (home / f"big.{n}").read_bytes() == big
        assert {path.name for path in home.iterdir()} == {
            "exe", "in.txt", "big",
            *(f"{name}.{n}" for name in ("out", "upper", "big") for n in range(2)),
        }  # fmt: skip
        # no unneeded file is left
        until(
            lambda: database.query("SELECT count(*) AS number FROM fetchwork.content")[0]["number"] == 0,
            "the contents to go",
        )


# the cases of HTCondor's job_slash_transfer, test_htcondor_809, 993 and test_ft_plugin_stuff
DESCRIPTIONS = {
    "what is in a directory": (
        "arguments = \"-c 'ls -d one two three four; ls -d slash'\"\ntransfer_input_files = slash/\n",
        {"out": "four\none\nthree\ntwo\n"},
    ),
    "the second of two with a name": (
        "arguments = \"-c 'cat a_file'\"\ntransfer_input_files = b_dir/, a_file\n",
        {"out": "second\n"},
    ),
    "relative paths": (
        "arguments = \"-c 'find input | sort'\"\npreserve_relative_paths = true\n"
        "transfer_input_files = input/a/AA/file-1, input/b/BB/file-2, input/b/BB/file-3\n",
        {
            "out": "input\ninput/a\ninput/a/AA\ninput/a/AA/file-1\n"
            "input/b\ninput/b/BB\ninput/b/BB/file-2\ninput/b/BB/file-3\n"
        },
    ),
    "remaps that end in a semicolon": (
        "arguments = \"-c 'touch one two three'\"\n"
        'transfer_output_remaps = "one=there/job_one;two=there/job_two;three=there/job_three;"\n',
        {"out": "", "err": "", "there/job_one": "", "there/job_two": "", "there/job_three": ""},
    ),
}
THERE = {
    **{f"slash/{name}": "" for name in ("one", "two", "three", "four")},
    **{"b_dir/a_file": "first\n", "a_file": "second\n", "there/kept": ""},
    **{f"input/{name}": "" for name in ("a/AA/file-1", "a/AA/not-1", "b/BB/file-2", "b/BB/file-3")},
}


def test_files_are_where_htcondor_s_descriptions_have_them(brief_pool: PersonalPool, home: Path) -> None:
    for number in range(len(DESCRIPTIONS)):
        for name, text in THERE.items():
            path = home / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    owner = give(home)
    with Queue(brief_pool.conninfo) as queue:
        for number, (lines, _) in enumerate(DESCRIPTIONS.values()):
            description = (
                f"initialdir = {home}/{number}\nexecutable = /bin/sh\ntransfer_executable = false\n"
                f"should_transfer_files = YES\noutput = out\nerror = err\n{lines}queue\n"
            )
            queue.submit(description, owner=owner)
        until(lambda: queue.query() == [], "the end of the jobs")
        assert queue.retrieve() == len(DESCRIPTIONS)
    for number, (what, (_, expected)) in enumerate(DESCRIPTIONS.items()):
        found = {name: (home / str(number) / name).read_text() for name in expected}
        assert found == expected, what


@pytest.mark.parametrize(("way", "code"), [("input", 13), ("output", 12)])
def test_a_plugin_that_takes_too_long_is_ended_and_another_is_waited_for(
    brief_pool: PersonalPool, way: str, code: int
) -> None:
    with Database(brief_pool.conninfo) as database:
        jobs = FileJobs(brief_pool, database)
        long = submit_with_plugin(brief_pool.conninfo, way, "ends://sleep/600")
        short = submit_with_plugin(brief_pool.conninfo, way, "ends://sleep/1")
        held = jobs.held(long)
        # ETIME
        assert (held["holdreasoncode"], held["holdreasonsubcode"]) == (code, 62)
        assert "did not end in time ( URL file = ends://sleep/600 )" in held["holdreason"]
        assert jobs.completed(short)["exitcode"] == 0
        scalar(database, "remove", jobs=[long])
