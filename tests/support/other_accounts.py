"""Other accounts' actions: a job's account, and an account that attacks others' files."""

import json
import os
import pwd
import subprocess
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

#: an account without another use in the tests
UID = 54321
_PROGRAM = r"""
import json, os, shutil, sys
own = sys.argv[1]
os.mkdir(own)
with open(f"{own}/forged", "w") as stream:
    stream.write("{}")
done, tried = [], 0
def attempt(what, act, *arguments):
    global tried
    tried += 1
    try:
        act(*arguments)
    except OSError:
        return
    done.append(what)
for path in json.load(sys.stdin):
    beside = f"{os.path.dirname(path)}/{os.urandom(8).hex()}"
    attempt(f"list {path}", os.listdir, path)
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_TRUNC):
        attempt(f"open {path} ({flags})", lambda: os.close(os.open(path, flags)))
    attempt(f"make {path}", lambda: os.close(os.open(path + "/new", os.O_WRONLY | os.O_CREAT, 0o666)))
    attempt(f"link {path}", os.link, path, beside)
    attempt(f"chmod {path}", os.chmod, path, 0o777)
    attempt(f"touch {path}", os.utime, path, (0, 0))
    attempt(f"move {path}", os.rename, path, beside)
    attempt(f"take {path}", os.rename, path, f"{own}/taken")
    attempt(f"replace {path}", os.rename, f"{own}/forged", path)
    attempt(f"replace {path} by a directory", os.rename, own, path)
    attempt(f"remove {path}", os.unlink, path)
    attempt(f"remove directory {path}", os.rmdir, path)
    attempt(f"remove all of {path}", shutil.rmtree, path)
print(json.dumps([tried, done]))
"""


def as_account(name: str, work: Callable[[], object]) -> None:
    """Do the work in a child that has become an account for good. Root alone may call this."""
    account = pwd.getpwnam(name)
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    try:
        os.setgroups([])
        os.setresgid(*[account.pw_gid] * 3)
        os.setresuid(*[account.pw_uid] * 3)
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def attack(paths: Iterable[Path], own: Path) -> tuple[int, list[str]]:
    """Try every attack on each path; return the number of attempts, and those that succeeded.

    ``own``: a directory for the account to make, on the same file system. Root alone may call this.
    """
    run = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", _PROGRAM, str(own)],
        input=json.dumps([str(path) for path in paths]),
        user=UID,
        group=UID,
        extra_groups=[],
        capture_output=True,
        text=True,
        cwd="/",
        check=True,
    )
    tried, done = json.loads(run.stdout)
    return tried, done
