"""HTCondor 25's own condor_submit reads submit descriptions as the bindings of 24.12 do."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from fetchwork.classad import bindings
from fetchwork.errors import HTCondorUnavailable, SubmitError
from fetchwork.pool.condorroot import installed_root
from fetchwork.queue.submitting import readers
from fetchwork.queue.submitting.descriptions import from_description
from tests.condor.conftest import NEWEST

COMMANDS = Path(__file__).parents[1] / "data/jobs/submit_commands.txt"
#: condor_submit in a pool root, with this machine's files at their own paths
PROGRAM = """#!/bin/sh
exec unshare --mount sh -c '
    root=$1 here=$2
    shift 2
    mount --bind /tmp "$root/tmp"
    mount --rbind /dev "$root/dev"
    export CONDOR_CONFIG=/dev/null
    exec chroot "$root" sh -c "cd \\"\\$0\\" && exec condor_submit \\"\\$@\\"" "$here" "$@"
' sh ROOT "$PWD" "$@"
"""
#: of the version, of the executable in another root, and defaults that are new in 25
OF_VERSION = {"CondorVersion", "CondorPlatform", "JobSubmitMethod"}
OF_EXECUTABLE = {"ExecutableSize", "DiskUsage", "ImageSize"}
DEFAULTS = {"RequestDisk", "TransferInputSizeMB"}
#: from 25.12 on a startd compares disks itself
DISK = '(versionGE(split(TARGET.CondorVersion)[1],"25.12.0") || (TARGET.Disk >= RequestDisk))'
#: 24 does not know the first; for the other, condor_submit wants a credd
DIFFERENT = {"submit_event_notes_attrs", "use_oauth_services"}

DESCRIPTIONS = {
    "process and item": "arguments = $(Process) $(x) $(ClusterId)\nqueue 2 x in (a, b)",
    "a list": "arguments = $(y)\nqueue x, y from (\n a 1\n b 2\n)",
    "an attribute": '+Foo = "a b"\nMY.Bar = Foo =?= "a ? : b"\nqueue',
    "a condition": "n = 3\nif defined n\n  priority = 5\nelse\n  priority = 6\nendif\nqueue",
    "a macro function": "arguments = $INT(n) $F(p)\nn = 2 * 3\np = /a/b.c\nqueue",
    "quotes": 'arguments = "one \'two three\' ""four"""\nenvironment = "A=1 B=\'x y\'"\nqueue',
    "more memory": "request_memory = 1 GB\nretry_request_memory_increase = RequestMemory * 2\nqueue",
    "policies": "max_retries = 3\nperiodic_hold = time() > 5\non_exit_hold = ExitCode =!= 0\nqueue",
    "files": "should_transfer_files = YES\ntransfer_input_files = a, b/\ntransfer_output_files = c\nqueue",
    "no file transfer": "should_transfer_files = NO\nrequirements = Memory > 5\nqueue",
    "a slice": "arguments = $(x) $(Step) $(ItemIndex)\nqueue 2 x in [1:3] (a, b, c, d)",
    "files as items": "arguments = $Fn(f)\nqueue f matching files *.dat",
    "a list with commas": "arguments = $(a) $(b)\nqueue a,b from (\n1, 2 3\n4 5, 6\n)",
    "a here document": "unread @=end\n a\n  b\n@end\narguments = a \\\n  b\nqueue",
    "an included file": "include : included\narguments = $(of_it)\nqueue",
    "more macro functions": "n = 3\narguments = $CHOICE(n,a,b,c,d) $SUBSTR(n,0,1) $REAL(n,%.2f)\nqueue",
    "defaults of macros": "arguments = $(none:a b) $(DOLLAR)(x) $$(Arch) $$([TARGET.Cpus + 1])\nqueue",
    "resources": "request_cpus = 2\nrequest_gpus = 1\ngpus_minimum_memory = 4GB\nrequest_foo = 1\nqueue",
    "an environment of both forms": "env = A=1;B=2\nqueue",
    "variables of the submitter": 'getenv = NO_SUCH, FW_*\nenvironment = "A=1"\nqueue',
    "a group": "accounting_group = g.h\naccounting_group_user = u\nconcurrency_limits = a:2, b\nqueue",
    "held": "hold = true\nqueue 2",
    "signals": "kill_sig = SIGUSR1\nremove_kill_sig = 9\njob_max_vacate_time = 30\nqueue",
    "streams and logs": "input = i\noutput = o.$(Process)\nerror = e\nlog = a.log\nlog_xml = true\nqueue 2",
    "kept": "leave_in_queue = JobStatus == 4\nstream_output = true\njob_lease_duration = 600\nqueue",
    "limits of time": "allowed_execute_duration = 60\nallowed_job_duration = 2 * 60\nqueue",
    "a later start": "deferral_time = 2000000000\ndeferral_window = 60\nqueue",
    "a schedule": "cron_minute = 0\ncron_hour = 1-5/2\ncron_window = 60\nqueue",
    "a container": "universe = container\ncontainer_image = docker://a/b:c\nqueue",
    "docker": "universe = docker\ndocker_image = a/b\ndocker_network_type = host\nqueue",
    "checkpoints": "checkpoint_exit_code = 85\ntransfer_checkpoint_files = a, b\nqueue",
    "files by URL": "transfer_input_files = http://a/b, c\noutput_destination = https://a/d\nqueue",
    "remaps": 'transfer_output_files = a, b\ntransfer_output_remaps = "a=/x/a;b = c"\nqueue',
    "few at a time": "max_idle = 2\nqueue 5",
    "the scheduler's own": "universe = scheduler\non_exit_remove = ExitCode == 0\nqueue",
    "ranks": "rank = Memory\npriority = -3\nnotification = Error\nnotify_user = a@b\nqueue",
    "letters of other languages": 'arguments = "Ä ж"\n+Text = "é"\nbatch_name = ñ\nqueue',
    "no universe for this queue": "universe = parallel\nmachine_count = 2\nqueue",
    "no number": "request_cpus = two +\nqueue",
    "a condition without an end": "if true\nqueue",
    "a line that is none": "foo bar\nqueue",
    "no such universe": "universe = moon\nqueue",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        root = installed_root(NEWEST)
    except HTCondorUnavailable as error:
        pytest.skip(str(error))
    script = tmp_path_factory.mktemp("program") / "condor_submit"
    script.write_text(PROGRAM.replace("ROOT", str(root)))
    script.chmod(0o755)
    return str(script)


@pytest.fixture
def by_program(monkeypatch: pytest.MonkeyPatch, program: str, tmp_path: Path) -> Callable[[str], Any]:
    """Reads a description where no older bindings are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def read(text: str) -> Any:
        with monkeypatch.context() as without:
            without.setattr(bindings, "old", _no_bindings)
            without.setattr(readers, "_program", lambda: program)
            return jobs(text)

    return read


def _no_bindings() -> NoReturn:
    raise ImportError("no module named 'htcondor'")


def jobs(text: str) -> list[dict[str, Any]] | str:
    """The ads of a description without what differs for a reason; or that it is refused."""
    try:
        made = from_description(text, cluster_id=77)
        own = [*made.own]
    except SubmitError:
        return "refused"
    ads = []
    for each in own:
        ad = {**made.common, **each}
        ad["Requirements"] = str(ad["Requirements"]).replace(DISK, "(TARGET.Disk >= RequestDisk)")
        ads.append({name: ad[name] for name in ad if name not in OF_VERSION | OF_EXECUTABLE | DEFAULTS})
    return ads


@pytest.mark.newest
@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_both_readers_make_the_same_jobs(name: str, by_program: Callable[[str], Any]) -> None:
    for file in ("one.dat", "two.dat"):
        Path(file).touch()
    Path("included").write_text("of_it = 7\n")
    text = f"executable = /bin/true\n{DESCRIPTIONS[name]}\n"
    assert by_program(text) == jobs(text)


@pytest.mark.slow
@pytest.mark.all
def test_both_readers_take_each_submit_command_alike(by_program: Callable[[str], Any]) -> None:
    different = set()
    for command in re.findall(r"^(?!#)(\S.*)$", COMMANDS.read_text(), re.M):
        name = command.partition("=")[0].strip()
        executable = "" if name == "executable" else "executable = /bin/true\n"
        text = f"{command}\n{executable}{'' if name == 'queue' else 'queue'}\n"
        if by_program(text) != jobs(text):
            different.add(name)
    assert different == DIFFERENT


def test_without_either_reader_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings, "old", _no_bindings)
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(SubmitError, match=r"install its bindings .*htcondor<24\.13.* or HTCondor 25"):
        from_description("executable = /bin/true\nqueue\n", cluster_id=1)
