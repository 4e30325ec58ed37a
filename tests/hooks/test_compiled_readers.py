"""The compiled hook reads foreign bytes exactly as the hook in Python does, or leaves them to that one; and
no bytes break it, as the sanitizers check.

The bytes are good ones with seeded damage. `make fuzz-hooks` searches without a seed, for any time.
"""

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fetchwork.compiler import OPTIONS, files_of
from fetchwork.deploy import compiled
from fetchwork.errors import ProtocolError
from fetchwork.hook.jobcheck import find_problem
from fetchwork.hook.wire import Reply, ReplyReader, encode_reply
from tests.conftest import WITHOUT_COMPILER
from tests.support.waiting import PATIENCE_S

from .conftest import ADS, SANITIZED

SOURCE = Path(__file__).parent / "fuzz/fuzz_client.c"
CASES = 3000
SIGNS = [
    b"\n",
    b"\n\n",
    b": ",
    b" ",
    b"=",
    b" = ",
    b'"',
    b"'",
    b"''",
    b"\\",
    b"\0",
    b"\xc3\xa9",
    b"\xff",
    b"9" * 13,
]
REPLIES = [
    encode_reply(reply)
    for reply in (
        Reply(),
        Reply(b'Cmd = "/bin/true"\n', exit=3, stderr="a remark"),
        Reply(signal=15, pid=189017),
        Reply(b"A = 1\n3 0\n{}x420 1 a\nb", files=18),
        Reply(code="unavailable", message="database does not answer: connection refused"),
        Reply(code="denied", message="caf\xe9"),
    )
]
JOB = b"""\
Arguments = "one 'two three' 'it''s'"
Cmd = "/bin/sh"
Environment = "A=1 B='x y' C=''''"
Err = "err"
FetchWorkToken = "secret"
In = "/dev/null"
Iwd = "/tmp"
JobPid = 189017
Out = "/tmp/out"
"""
CONF = b"# a comment\nkeyword = FW\nsocket = /run/x.sock\nspool=/var/spool\n deadline_s =  5\t\n"

Said = list[dict[str, str]]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[bytes]], Said]:
    """Gives cases to the compiled readers, and returns their results: the verdict first, as "is"."""
    if shutil.which("cc") is None:
        pytest.skip(WITHOUT_COMPILER)
    program = tmp_path_factory.mktemp("fuzz") / "fuzz_client"
    parts = [path for path in files_of(compiled.SOURCE, "c") if path.name != "client.c"]
    subprocess.run(["cc", *OPTIONS, *SANITIZED, "-o", program, SOURCE, *parts], check=True)

    def say(cases: list[bytes]) -> Said:
        stdin = b"".join(b"%d\n%b" % (len(case), case) for case in cases)
        done = subprocess.run([program], input=stdin, capture_output=True, timeout=PATIENCE_S)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr[-2000:].decode()
        said = []
        for line in done.stdout.decode().splitlines():
            word, *fields = line.split(" ")
            said.append({"is": word} | dict(field.split("=", 1) for field in fields))
        assert len(said) == len(cases)
        return said

    return say


def damaged(good: list[bytes], seed: int, cases: int = CASES) -> list[bytes]:
    """Good bytes, and the same with bytes omitted, doubled, exchanged, cut off, or made significant ones."""
    dice = random.Random(seed)
    made = list(good)
    while len(made) < cases:
        data = bytearray(dice.choice(good))
        for _ in range(dice.choice((1, 1, 1, 2, 5))):
            at = dice.randrange(len(data) + 1)
            to = min(len(data), at + dice.choice((0, 1, 1, 3, 20)))
            match dice.randrange(5):
                case 0:
                    del data[at:to]
                case 1:
                    data[at:at] = data[at:to]
                case 2:
                    data[at:to] = dice.choice(SIGNS)
                case 3:
                    data[at:at] = dice.choice(SIGNS)
                case 4:
                    data[at:to] = dice.randbytes(to - at)
        made.append(bytes(data[: dice.randrange(len(data) + 1)] if dice.random() < 0.1 else data))
    return made


def hexed(text: str) -> str:
    return text.encode().hex()


def by_python(data: bytes) -> dict[str, str]:
    reader = ReplyReader()
    reader.feed(data)
    try:
        reply = reader.next_reply()
    except ProtocolError as error:
        return {"is": "broken", "why": hexed(str(error))}
    if reply is None:
        return {"is": "more"}
    return {
        "is": "error" if reply.code else "ok",
        "exit": str(reply.exit),
        "signal": str(reply.signal),
        "pid": str(reply.pid),
        "code": hexed(reply.code),
        "message": hexed(reply.message),
        "stderr": hexed(reply.stderr),
        "body": reply.body.hex(),
        "files": str(reply.files),
    }


def test_a_reply_is_read_as_python_reads_it_to_the_words_of_the_complaint(
    read: Callable[[list[bytes]], Said],
) -> None:
    cases = damaged([*REPLIES, b"fetchwork/1 ok\n" + b"x: 1\n" * 2000, b"x" * 9000], seed=15)
    said = read([b"r" + case for case in cases])
    for case, ours in zip(cases, said, strict=True):
        assert ours == by_python(case), case
    # the damage was of all sorts
    assert {each["is"] for each in said} == {"ok", "error", "broken", "more"}


@pytest.mark.parametrize(
    "words", ["plain", "tab\there", "caf\xe9 \u4f60", "z\u200bero", "\x85\u2028", "x" * 50]
)
def test_a_line_that_is_shown_is_made_one_line_as_python_makes_it(
    read: Callable[[list[bytes]], Said], words: str
) -> None:
    case = f"HTTP/1.1 {words}\n\n".encode()
    assert read([b"r" + case]) == [by_python(case)]


def test_a_job_that_is_called_fine_has_no_problem(
    read: Callable[[list[bytes]], Said], tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text("#!/bin/sh -e\n")
    script.chmod(0o755)
    other = f'Cmd = "script"\nIwd = "{tmp_path}"\nOut = "out"\nEnvironment = "A=1"\n'.encode()
    captured = (ADS / "25.14.1-prepare_job.ad").read_bytes()
    cases = damaged([JOB, other, captured], seed=16)
    said = [each["is"] for each in read([b"j" + case for case in cases])]
    assert said[:3] == ["fine"] * 3
    for case, word in zip(cases, said, strict=True):
        if word == "fine":
            assert find_problem(case) == "", case
    assert {"fine", "unsure"} == set(said)
    # nor are clearly good cases left to Python
    assert not [
        case for case, word in zip(cases, said, strict=True) if word != "fine" and is_plainly_fine(case)
    ]


def is_plainly_fine(ad: bytes) -> bool:
    return ad.isascii() and b"\0" not in ad and b"eval(" not in ad and find_problem(ad) == ""


@pytest.mark.parametrize(
    "line",
    [
        'Cmd = "/no/such"',
        'Cmd = ""',
        'Cmd = "/tmp"',
        'Cmd = "/etc/passwd"',
        'Iwd = "/no/such"',
        'Iwd = "/bin/sh"',
        'In = "/no/such"',
        'In = "/tmp"',
        'Out = "/tmp"',
        'Out = "/no/such/file"',
        'Arguments = "it\'s"',
        'Environment = "A=1 B"',
        'Environment = "=1"',
        "Environment = \"A=1 ''''=2 =3\"",
        'Cmd = eval("\\"/bin/\\\\163h\\"")',
        "WantContainer = true",
        "WantSIF = true",
        'SingularityImage = "/image"',
    ],
)
def test_each_problem_is_left_to_python(read: Callable[[list[bytes]], Said], line: str) -> None:
    ad = JOB + line.encode() + b"\n"
    assert read([b"j" + ad]) == [{"is": "unsure"}]


def test_hook_conf_is_read_as_python_reads_it(read: Callable[[list[bytes]], Said]) -> None:
    cases = damaged(
        [CONF, b"keyword=A=B\nsocket = \n", b"socket =/x\r\nkeyword = Y\r\n"], seed=17, cases=1000
    )
    words = set()
    for case, said in zip(cases, read([b"c" + case for case in cases]), strict=True):
        words.add(said["is"])
        if said["is"] == "read":
            conf = python_conf(case)
            assert (said["keyword"], said["socket"]) == (hexed(conf["keyword"]), hexed(conf["socket"])), case
    assert words == {"read", "left"}


def python_conf(data: bytes) -> dict[str, str]:
    conf = {}
    for line in data.decode("utf-8", "replace").split("\n"):
        key, equals, value = line.partition("=")
        if equals and not key.startswith("#"):
            conf[key.strip()] = value.strip()
    return conf


def test_the_job_pid_is_found_as_python_finds_it(read: Callable[[list[bytes]], Said]) -> None:
    cases = damaged([JOB, b"JobPid = 7\r\n", b'A = "JobPid = 5"\nJobPid = 6 \n'], seed=18, cases=1000)
    for case, said in zip(cases, read([b"s" + case for case in cases]), strict=True):
        start = (b"\n" + case).find(b"\nJobPid = ")
        line = case[start:].split(b"\n", 1)[0] if start >= 0 else b""
        known = line.rpartition(b" ")[2].strip()
        assert bytes.fromhex(said["text"]) == known or not known.isdigit(), case


def test_no_ad_of_a_chain_breaks_the_runner(read: Callable[[list[bytes]], Said]) -> None:
    escaped = b'Arguments = eval("\\"a\\\\nb \\\\101\\\\377 \'c d\'\\"")\nKillSig = "SIGUSR1"\nOut = "o"\n'
    cases = damaged([JOB, escaped, (ADS / "25.14.1-prepare_job.ad").read_bytes()], seed=19)
    said = read([b"a" + case for case in cases])
    # the last word and the last variable
    assert (said[0]["word"], said[0]["variable"], said[0]["out"]) == tuple(
        map(hexed, ("it's", "C='", "/tmp/out"))
    )
    assert (said[1]["word"], said[1]["signal"], said[1]["out"]) == (hexed("c d"), "10", hexed("//o"))
    assert {each["is"] for each in said} == {"read"}
