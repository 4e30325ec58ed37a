"""HTCondor's own commands from a pool root, run in a folder: one program quickly runs many of them."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fetchwork.pool.condorroot import installed_root

# each command asks a name server for this machine's name, which may answer some five seconds late
_ENTER = """
mount -t tmpfs none "$1/mnt"
mkdir "$1/mnt/data"
mount --bind "$2" "$1/mnt/data"
echo "127.0.0.1 localhost $(uname -n)" > "$1/mnt/hosts"
mount --bind "$1/mnt/hosts" "$1/etc/hosts"
exec chroot "$1" sh -c 'cd /mnt/data && exec python3 .run.py'
"""

_RUN = """
import json, subprocess
answers = []
for words in json.load(open(".cases")):
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True)
    answers.append([ended.returncode, ended.stdout.decode("latin-1"), ended.stderr.decode("latin-1")])
json.dump(answers, open(".answers", "w"))
"""


class Answer(NamedTuple):
    """A command's output, a character for each byte, and its exit status."""

    status: int
    out: str
    err: str


def answers(suite: str, folder: Path, cases: Sequence[Sequence[str]]) -> list[Answer]:
    """Run commands of a suite's HTCondor in a folder; raises HTCondorUnavailable."""
    root = installed_root(suite)
    (folder / ".cases").write_text(json.dumps([list(case) for case in cases]))
    (folder / ".run.py").write_text(_RUN)
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--", "sh", "-c", _ENTER, "sh"]
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "TZ": "UTC", "CONDOR_CONFIG": "/dev/null"}
    subprocess.run([*enter, str(root), str(folder)], env=environment, check=True)
    return [Answer(*answer) for answer in json.loads((folder / ".answers").read_text())]
