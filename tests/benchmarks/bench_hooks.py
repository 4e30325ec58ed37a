"""What a hook costs in CPU, beside the interpreter that runs it.

    python tests/benchmarks/bench_hooks.py [ROUNDS]

Each round starts, in turn, a bare ``python3 -I -S -c pass`` and the six hooks as ``fetchwork hooks install``
lays them, with the stdin that real HTCondor gave them; an agent that answers at once is a process of its own
and is not counted. User and system time of each process come from the kernel (wait4); the figure of a hook
is its median over the median of the bare interpreter. The last line is the worst of the six.
"""

import asyncio
import os
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
    """An agent that gives a job ad of usual size to fetch_work, and says yes to the rest."""
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
        hookinstall.install(home / "hooks", keyword="FW", socket=socket, python=PYTHON)
        context = get_context("fork")
        ready = context.Event()
        agent = context.Process(target=serve, args=(str(socket), ready), daemon=True)
        agent.start()
        ready.wait(20)
        try:
            measure(home, rounds)
        finally:
            agent.terminate()
            agent.join()


def measure(home: Path, rounds: int) -> None:
    sink = os.open("/dev/null", os.O_WRONLY)
    commands = {"bare": BARE}
    commands |= {name: [str(home / "hooks" / name), *ARGS.get(name, [])] for name in HOOKS}
    stdin = {name: os.open(ADS / file, os.O_RDONLY) for name, file in STDIN.items()}
    stdin["bare"] = os.open("/dev/null", os.O_RDONLY)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for index in range(rounds + 5):
        for name, command in commands.items():
            spent = cpu_ms(command, stdin[name], sink)
            if index >= 5:
                times[name].append(spent)
    bare = statistics.median(times["bare"])
    print(f"{rounds} rounds, {os.cpu_count()} CPUs, {PYTHON} -> {os.path.realpath(PYTHON)}")
    print(f"{'':16} {'median ms':>10} {'min ms':>8} {'ratio':>6}")
    ratios = {}
    for name, spent in times.items():  # type: ignore[assignment]
        ratios[name] = statistics.median(spent) / bare  # type: ignore[arg-type]
        print(f"{name:16} {statistics.median(spent):10.2f} {min(spent):8.2f} {ratios[name]:6.3f}")  # type: ignore[arg-type, call-overload]
    print(f"hook cpu ratio: {max(ratio for name, ratio in ratios.items() if name != 'bare'):.3f}")


if __name__ == "__main__":
    main()
