"""The CPU time of a hook, beside the interpreter that runs it.

    python tests/benchmarks/bench_hooks.py [ROUNDS]

Each round starts, in turn, a bare ``python3 -I -S -c pass`` and the six hooks as ``fetchwork hooks install``
writes them, in Python and, if there is a C compiler, compiled, with the stdin that real HTCondor gave them;
an agent that answers at once is a process of its own and is not counted. User and system time of each process
come from the kernel (wait4); the figure of a hook is its median over the median of the bare interpreter. The
last lines are the worst of the six; the goals are 1.15 in Python and 0.2 compiled.
"""

import asyncio
import os
import shutil
import statistics
import sys
import tempfile
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from pathlib import Path

from fetchwork.classad.ads import parse_old, print_old
from fetchwork.deploy import hooks as hookinstall
from fetchwork.hook.wire import HOOKS, Reply, RequestReader, encode_reply

ADS = Path(__file__).parent.parent / "data" / "ads"
PYTHON = "/usr/bin/python3"
BARE = [PYTHON, "-I", "-S", "-c", "pass"]
STDIN = {
    "fetch_work": "25.14.1-fetch_work-static-unclaimed.ad",
    "reply_fetch": "25.14.1-reply_fetch-accept.txt",
    "evict_claim": "25.14.1-reply_fetch-accept.txt",
    "prepare_job": "25.14.1-prepare_job.ad",
    "update_job_info": "25.14.1-update_job_info-2-running.ad",
    "job_exit": "25.14.1-job_exit-exit-code3.ad",
}
ARGS = {"reply_fetch": ["accept"], "job_exit": ["exit"]}
DEFAULT_ROUNDS = 150


def serve(path: str, ready: Event) -> None:
    """Play an agent that gives a job ad of usual size to fetch_work, and accepts every other request."""
    ad = parse_old((ADS / "25.14.1-prepare_job.ad").read_bytes())
    answers = {name: encode_reply(Reply()) for name in HOOKS}
    answers["fetch_work"] = encode_reply(Reply(print_old(ad).encode()))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        messages = RequestReader()
        while data := await reader.read(65536):
            messages.feed(data)
            if request := messages.next_request():
                writer.write(answers[request.name])
                await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_unix_server(answer, path, backlog=64)
        ready.set()
        await server.serve_forever()

    asyncio.run(run())


def cpu_ms(command: list[str], stdin: int, sink: int) -> float:
    """User and system time of one process, in milliseconds."""
    os.lseek(stdin, 0, os.SEEK_SET)
    actions = [(os.POSIX_SPAWN_DUP2, stdin, 0), (os.POSIX_SPAWN_DUP2, sink, 1)]
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"bench_hooks: {' '.join(command)} ended with status {status}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_ROUNDS
    with tempfile.TemporaryDirectory(prefix="fetchwork-bench-") as directory:
        home = Path(directory)
        home.chmod(0o755)
        socket = home / "agent.sock"
        directories = {"hook": home / "hooks"}
        hookinstall.install(directories["hook"], keyword="FW", socket=socket, python=PYTHON)
        if shutil.which("cc"):
            directories["compiled hook"] = home / "compiled"
            hookinstall.install(home / "compiled", keyword="FW", socket=socket, python=PYTHON, compiled=True)
        context = get_context("fork")
        ready = context.Event()
        agent = context.Process(target=serve, args=(str(socket), ready), daemon=True)
        agent.start()
        ready.wait(20)
        try:
            measure(directories, rounds)
        finally:
            agent.terminate()
            agent.join()


def measure(directories: dict[str, Path], rounds: int) -> None:
    sink = os.open("/dev/null", os.O_WRONLY)
    stdin = {name: os.open(ADS / file, os.O_RDONLY) for name, file in STDIN.items()}
    nothing = os.open("/dev/null", os.O_RDONLY)
    bare: list[float] = []
    times: dict[tuple[str, str], list[float]] = {(kind, name): [] for kind in directories for name in HOOKS}
    for index in range(rounds + 5):
        spent = {
            (kind, name): cpu_ms([str(directory / name), *ARGS.get(name, [])], stdin[name], sink)
            for kind, directory in directories.items()
            for name in HOOKS
        }
        empty = cpu_ms(BARE, nothing, sink)
        if index >= 5:
            bare.append(empty)
            for key, ms in spent.items():
                times[key].append(ms)
    median = statistics.median(bare)
    print(f"{rounds} rounds, {os.cpu_count()} CPUs, {PYTHON} -> {os.path.realpath(PYTHON)}")
    print(f"{'':30} {'median ms':>10} {'min ms':>8} {'ratio':>6}")
    print(f"{'bare':30} {median:10.2f} {min(bare):8.2f}  1.000")
    worst = dict.fromkeys(directories, 0.0)
    for (kind, name), each in times.items():
        ratio = statistics.median(each) / median
        worst[kind] = max(worst[kind], ratio)
        print(f"{f'{kind} {name}':30} {statistics.median(each):10.2f} {min(each):8.2f} {ratio:6.3f}")
    for kind, ratio in worst.items():
        print(f"{kind} cpu ratio: {ratio:.3f}")


if __name__ == "__main__":
    main()
