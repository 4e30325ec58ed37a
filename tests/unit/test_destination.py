"""checkpoint_destination: the manifest, the uploaded files, and their use at the next start."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fetchwork.agent.files.parked import OutputSpool
from fetchwork.errors import AgentUnavailable
from fetchwork.hook import checkpointed
from fetchwork.hook.wire import Request, encode_request
from fetchwork.sandbox import checkpoint, destination, names
from fetchwork.sandbox.failure import FileFailure, TransferFailure
from fetchwork.sandbox.fill import fill
from fetchwork.sandbox.jsontext import to_json
from fetchwork.sandbox.leave import Ended, leave
from fetchwork.sandbox.outputs import Output
from tests.support.sandboxes import STORE_PLUGIN

AD: dict[str, Any] = {"GlobalJobId": "db#1.0#7", "CheckpointDestination": "store:///x"}
# sha256sum -b
MANIFEST = (
    b"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb *a\n"
    b"3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d *d/b\n"
)


def whole(text: bytes = MANIFEST, number: int = 3) -> bytes:
    return text + f"{hashlib.sha256(text).hexdigest()} *_condor_checkpoint_MANIFEST.{number:04d}\n".encode()


@pytest.fixture
def sandbox(tmp_path: Path) -> Path:
    made = tmp_path / "sandbox"
    (made / "d").mkdir(parents=True)
    (made / "a").write_text("a")
    (made / "d/b").write_text("b")
    return made


def files(sandbox: Path) -> list[Output]:
    return [
        Output("a", str(sandbox / "a"), 0o644, 1),
        Output("d", str(sandbox / "d"), 0o755, directory=True),
        Output("d/b", str(sandbox / "d/b"), 0o600, 1),
    ]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def plugins(tmp_path: Path) -> dict[str, list[object]]:
    """The agent's report of the host's plugins."""
    plugin = tmp_path / "plugin"
    plugin.write_text(STORE_PLUGIN)
    plugin.chmod(0o755)
    return {"store": [str(plugin), True]}


@pytest.mark.parametrize(
    ("ad", "expected"),
    [
        ({}, "store:///x/db_1.0_7/0003/"),
        ({"CheckpointDestination": "store:///x/"}, "store:///x/db_1.0_7/0003/"),
        ({"CheckpointDestination": "/x"}, None),
        ({"CheckpointDestination": 7}, None),
    ],
)
def test_the_urls_are_htcondor_s(ad: dict[str, Any], expected: str | None) -> None:
    if expected is not None:
        assert destination.base_of({**AD, **ad}, 3) == expected
        return
    with pytest.raises(FileFailure, match="is no URL"):
        destination.base_of({**AD, **ad}, 3)


def test_a_manifest_is_htcondor_s_and_fits_what_it_is_of(sandbox: Path) -> None:
    listed = [one for one in files(sandbox) if not one.directory]
    assert destination.manifest_of(listed, 3) == whole()
    assert destination.problem_of(whole(), str(sandbox), ["a", "d/b"]) == ""


@pytest.mark.parametrize(
    ("manifest", "there", "problem"),
    [
        (b"", ["a", "d/b"], "not whole"),
        (MANIFEST, ["a", "d/b"], "not whole"),
        (whole()[:-20], ["a", "d/b"], "not whole"),
        (whole().replace(b" *a", b" *c"), ["a", "d/b"], "not whole"),
        (whole(b"x *a\n"), ["a"], "is not one"),
        (whole(), ["a"], "lists other files"),
        (whole(), ["a", "d/b", "c"], "lists other files"),
        (whole(MANIFEST.replace(b"ca", b"cb")), ["a", "d/b"], "'a' is not what was saved"),
        (whole(MANIFEST.replace(b"d/b", b"d/c")), ["a", "d/c"], "No such file"),
    ],
)
def test_what_does_not_fit_is_found(sandbox: Path, manifest: bytes, there: list[str], problem: str) -> None:
    assert problem in destination.problem_of(manifest, str(sandbox), there)


@pytest.mark.parametrize("name", ["two\nlines", "_condor_checkpoint_MANIFEST.0007"])
def test_a_name_that_no_manifest_can_have_is_refused(sandbox: Path, name: str) -> None:
    with pytest.raises(FileFailure, match="can't be in the manifest"):
        destination.manifest_of([Output(name, str(sandbox / "a"), 0o644, 1)], 0)


def send(sandbox: Path, store: Path, plugins: dict[str, list[object]]) -> list[Output]:
    notes = {"ad": AD, "plugins": plugins, "plugin_limit_s": 60}
    return destination.send(
        files(sandbox), f"store://{store}/0003/", 3, notes, str(sandbox), float("inf"), str
    )


def test_all_files_are_sent_and_the_manifest_is_kept(
    sandbox: Path, store: Path, plugins: dict[str, list[object]]
) -> None:
    sent = send(sandbox, store, plugins)
    assert [(one.name, one.url) for one in sent] == [
        ("a", f"store://{store}/0003/a"),
        ("d/b", f"store://{store}/0003/d/b"),
        ("_condor_checkpoint_MANIFEST.0003", ""),
    ]
    assert ((store / "0003/a").read_text(), (store / "0003/d/b").read_text()) == ("a", "b")
    assert Path(sent[-1].path).read_bytes() == whole()


def test_a_file_that_changes_while_it_is_sent_makes_no_checkpoint(
    sandbox: Path, store: Path, plugins: dict[str, list[object]]
) -> None:
    plugin = Path(str(plugins["store"][0]))
    plugin.write_text(f"{STORE_PLUGIN}\nopen('{sandbox}/a', 'w').write('changed')\n")
    with pytest.raises(FileFailure, match="changed while it was sent"):
        send(sandbox, store, plugins)


# ---- the next start


class Agent:
    """An agent that knows a plan."""

    def __init__(self, manifest: bytes, store: Path, plugins: dict[str, list[object]]) -> None:
        self.contents = {1: b"input", 2: manifest}
        self.plan = {
            "ad": AD,
            "plugins": plugins,
            "plugin_limit_s": 60,
            "executable": False,
            "has_key": False,
            "files": [
                self.content("input", "a", 1), self.content("input", "only", 1),
                self.content("spool", "_condor_checkpoint_MANIFEST.0003", 2),
                self.url(store, "a"), self.url(store, "d/b"),
            ],
        }  # fmt: skip

    def content(self, direction: str, name: str, number: int) -> dict[str, object]:
        size = len(self.contents[number])
        return {
            **{"direction": direction, "name": name, "mode": 0o644, "size": size},
            **{"source": "content", "content_id": number},
        }

    def url(self, store: Path, name: str) -> dict[str, object]:
        return {
            **{"direction": "spool", "name": name, "mode": 0o640, "size": 1},
            **{"source": "url", "url": f"store://{store}/0003/{name}"},
        }

    def ask(self, name: str, arg: str) -> bytes:
        if name == "input_plan":
            return json.dumps(self.plan).encode()
        return self.contents[int(arg.split(maxsplit=1)[0])]


@pytest.fixture
def next_start(
    sandbox: Path, store: Path, plugins: dict[str, list[object]], tmp_path: Path
) -> Callable[[bytes], tuple[dict[str, str], str]]:
    """Fill another sandbox; return its files, and the reason why the checkpoint was not used."""

    def start(manifest: bytes) -> tuple[dict[str, str], str]:
        made = tmp_path / "next"
        made.mkdir()
        filled = fill(str(made), Agent(manifest, store, plugins).ask, lambda seconds: None)
        found = {
            str(path.relative_to(made)): path.read_text()
            for path in made.rglob("*")
            if path.is_file() and path.name != names.NOTES
        }
        return found, filled.unused

    send(sandbox, store, plugins)
    return start


def test_a_checkpoint_goes_over_the_inputs(
    next_start: Callable[[bytes], tuple[dict[str, str], str]],
) -> None:
    assert next_start(whole()) == ({"a": "a", "d/b": "b", "only": "input"}, "")


def test_one_that_was_changed_leaves_nothing(
    next_start: Callable[[bytes], tuple[dict[str, str], str]], store: Path
) -> None:
    (store / "0003/d/b").write_text("B")
    found, unused = next_start(whole())
    assert found == {"a": "input", "only": "input"}
    assert unused == "file 'd/b' is not what was saved"


def test_one_that_can_t_be_had_holds_the_job_as_an_input_does(
    next_start: Callable[[bytes], tuple[dict[str, str], str]], store: Path
) -> None:
    (store / "0003/a").unlink()
    with pytest.raises(TransferFailure) as failure:
        next_start(whole())
    assert failure.value.code == 13


# ---- the run's owner


class Answers:
    """An agent with these answers; None stands for an agent that is away."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)

    def ask(self, name: str, arg: str, timeout_s: float) -> bytes:
        assert (name, arg) == ("output_plan", "now")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise AgentUnavailable("away")
        return answer


def test_nothing_is_sent_by_a_run_that_is_over_or_when_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_ours(*answers: bytes | None) -> bool:
        clock = iter(range(0, 10_000, 50))
        monkeypatch.setattr(checkpointed, "monotonic", lambda: float(next(clock)))
        monkeypatch.setattr(checkpointed, "AGAIN_S", 0.0)
        return checkpointed._is_ours(Answers(*answers))  # type: ignore[arg-type]

    assert is_ours(None, b"")
    assert is_ours(b"vacated\n")
    assert not is_ours(None)
    with pytest.raises(TransferFailure, match="the run is over"):
        is_ours(None, b"unwanted\n")


# ---- its staged files


@pytest.fixture
def spool(tmp_path: Path) -> OutputSpool:
    made = OutputSpool(tmp_path / "spool.outputs")
    made.make()
    return made


def write_notes(sandbox: Path, plugins: dict[str, list[object]], where: str) -> dict[str, Any]:
    ad = {
        **{**AD, "WantFTOnCheckpoint": True, "SuccessCheckpointExitCode": 85},
        **{"TransferCheckpoint": "a, d", "CheckpointDestination": where},
    }
    notes: dict[str, Any] = {"ad": ad, "plugins": plugins, "plugin_limit_s": 60, "before": {}}
    (sandbox / names.NOTES).write_text(to_json(notes))
    return notes


#: the staged files, and whether a plugin has uploaded them elsewhere
PARKED = {"a": True, "d/b": True, "_condor_checkpoint_MANIFEST.0003": False}


def test_what_is_parked_between_two_executions_is_the_manifest_and_leaves_nothing_behind(
    sandbox: Path, store: Path, plugins: dict[str, list[object]], spool: OutputSpool
) -> None:
    notes = write_notes(sandbox, plugins, f"store://{store}")
    progress = checkpoint.Progress("/bin/true", "", 3)
    before = set(sandbox.rglob("*"))
    report = encode_request(Request("save_checkpoint", b"FetchWorkRunId = 7\n", keyword="K"))
    name = checkpoint.park(str(sandbox), notes, str(spool.directory), progress, report, str)
    assert {one.name: one.url is not None for one in spool.read(name).files} == PARKED
    assert (store / "db_1.0_7/0003/d/b").read_text() == "b"
    assert set(sandbox.rglob("*")) == before


@pytest.mark.parametrize("works", [True, False])
def test_an_eviction_sends_what_the_job_ended_for_or_keeps_the_one_before(
    sandbox: Path, store: Path, plugins: dict[str, list[object]], spool: OutputSpool, works: bool
) -> None:
    write_notes(sandbox, plugins, f"store://{store}" if works else "other:///x")
    checkpoint.Progress("/bin/true", "", 3).write(str(sandbox))
    ended = Ended(evicted=True, unwanted=False, status={"ExitCode": 85})
    report = encode_request(Request("job_exit", b"FetchWorkRunId = 7\n", keyword="K", arg="evict"))
    name = leave(str(sandbox), str(spool.directory), ended, report, float("inf"), str)
    if not works:
        assert name is None
        assert spool.names() == []
        return
    assert name is not None
    found = spool.read(name)
    assert (found.use, found.number) == ("spool", 3)
    assert {one.name: one.url is not None for one in found.files} == PARKED
