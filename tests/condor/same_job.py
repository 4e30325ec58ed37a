"""Submits jobs that inspect themselves, and collects their reports: `python same_job.py MODULE jobs`.

MODULE is ``htcondor2`` or ``fetchwork``; the standard input has the jobs and the directory for their reports,
the answer is JSON. It runs by itself, in a place where no module of these tests can be imported.
"""

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 240
OF_THE_END = (
    "JobStatus", "ExitCode", "ExitBySignal", "ExitSignal", "NumJobStarts", "NumJobCompletions",
    "HoldReasonCode", "HoldReasonSubCode",
    # the slot's resources, as history has them
    "CpusProvisioned", "MemoryProvisioned", "GPUsProvisioned", "AssignedGPUs", "LastRemoteHost",
)  # fmt: skip
OF_ITS_FILES = ("BytesSent", "BytesRecvd")


class Jobs:
    """The jobs of a side, by name."""

    def __init__(self, bindings: Any, given: dict[str, Any]) -> None:
        self.bindings = bindings
        self.schedd = bindings.Schedd()
        self.directory = Path(given["directory"])
        self.given: dict[str, dict[str, Any]] = given["jobs"]
        self.clusters: dict[str, int] = {}
        self.end = time.monotonic() + PATIENCE_S

    def submit(self) -> None:
        for name, job in self.given.items():
            description = job["description"].replace("FILE", f"{self.directory}/{name}")
            submit = self.bindings.Submit(f"initialdir = {self.directory}\n{description}\n")
            self.clusters[name] = self.schedd.submit(submit).cluster()

    def act(self) -> None:
        """Act on jobs as described once they wait for it."""
        waiting = {name: job["act"] for name, job in self.given.items() if "act" in job}
        while waiting and time.monotonic() < self.end:
            time.sleep(0.3)
            for name, action in list(waiting.items()):
                others = self.given[name].get("beside", [])
                if all((self.directory / f"{each}.json").exists() for each in [name, *others]):
                    del waiting[name]
                    self._do(action, self.clusters[name])

    def _do(self, action: str, cluster: int) -> None:
        self.schedd.act(getattr(self.bindings.JobAction, action), f"ClusterId == {cluster}")

    def collect(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while len(found) < len(self.clusters) and time.monotonic() < self.end:
            time.sleep(0.3)
            here = {ad["ClusterId"]: ad for ad in self.schedd.query()}
            for name, cluster in self.clusters.items():
                ad = here.get(cluster)
                vacated = self.given[name].get("act") == "Vacate"
                # a held job may still be ending
                over = ad is None or (ad["JobStatus"] == 5 and "LastRemoteHost" in ad)
                if name in found or not (over or vacated):
                    continue
                signals = self.directory / f"{name}.json.signals"
                if vacated and not signals.exists():
                    continue
                if ad is None:
                    ad = next(iter(self.schedd.history(f"ClusterId == {cluster}", [], 1)), None)
                if vacated:
                    # between two runs its state may vary
                    found[name] = {"end": {}}
                elif ad is not None:
                    found[name] = {"end": {key: _plain(ad[key]) for key in OF_THE_END if key in ad}}
                    found[name]["bytes"] = {key: ad.get(key) for key in OF_ITS_FILES}
        for name in found:
            written = _written(self.directory / f"{name}.json")
            found[name] |= {**written, "cluster": self.clusters[name]}
        self.schedd.act(self.bindings.JobAction.Remove, "true")
        return found


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool) else str(value)


def _written(file: Path) -> dict[str, Any]:
    """The job's report, and the files that it left behind."""
    signals = Path(f"{file}.signals")
    return {
        "seen": json.loads(file.read_text())["seen"] if file.exists() else None,
        "signals": json.loads(signals.read_text()) if signals.exists() else None,
        "stdout": _text(file.with_suffix(".out")),
        "stderr": _text(file.with_suffix(".err")),
    }


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def jobs(bindings: Any) -> dict[str, Any]:
    """The facts about each job once it has ended."""
    them = Jobs(bindings, json.load(sys.stdin))
    them.submit()
    them.act()
    return them.collect()


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[2]](importlib.import_module("htcondor2"))))
