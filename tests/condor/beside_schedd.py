"""What a program asks of a schedd, of a real one and of fetchwork: `python beside_schedd.py MODULE QUESTION`.

MODULE is ``htcondor2`` or ``fetchwork``; the answer is JSON. It runs by itself, where nothing of these tests
can be imported.
"""

import importlib
import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any

PATIENCE_S = 120
JOB = """
executable = /bin/true
initialdir = /tmp
transfer_executable = false
should_transfer_files = IF_NEEDED
"""

# A is a cluster of four jobs that stay Idle, B one of two; a number alone is the cluster's as an int
ACTS_AND_EDITS: list[tuple[str, Any]] = [
    ("Hold", "A.0"),
    ("Hold", "A.0"),
    ("Hold", ["A.0", "A.1"]),
    ("Hold", ["A.0", "A.1", "A.2", "A.99"]),
    ("Release", ("A",)),
    ("Release", ("A",)),
    ("Release", "A.0"),
    ("Release", ["A.0", "A.0"]),
    ("Hold", "ClusterId == A && ProcId < 2"),
    ("Hold", "ClusterId == A && ProcId < 2"),
    ("Hold", "A"),
    ("Release", "ClusterId == A"),
    ("Release", "ClusterId == A"),
    ("Vacate", "A.0"),
    ("VacateFast", "A.0"),
    ("Vacate", "ClusterId == A"),
    ("Suspend", "A.0"),
    ("Continue", "A.0"),
    ("RemoveX", "A.0"),
    ("RemoveX", "ClusterId == A"),
    ("Hold", []),
    ("Hold", ""),
    ("Hold", "  "),
    ("Hold", "ClusterId =="),
    ("Hold", 7.5),
    ("Hold", ["a", "b"]),
    ("Hold", "ClusterId == A && ProcId == 99"),
    ("edit 1", "A.0"),
    ("edit 2", ["A.0", "A.1"]),
    ("edit 3", ("A",)),
    ("edit 4", "ClusterId == A && Mine == 3"),
    ("edit 5", []),
    ("edit 5", ""),
    ("edit 6", "ClusterId == A && Mine == 3"),
    ("edit 6", 7.5),
    ("edit 6", ["a", "b"]),
    ("edit 6", "a!b"),
    ("Remove", "A.0"),
    ("Remove", "A.0"),
    ("Remove", ["A.1", "A.1"]),
    ("Remove", "ClusterId == A"),
    ("Remove", ("B",)),
]


def outcome(bindings: Any, function: Callable[..., Any], *arguments: object) -> object:
    """The result of a call, or the name of what it raised that a program could catch."""
    try:
        result = function(*arguments)
    except ValueError:
        return "ValueError"
    except TypeError:
        return "TypeError"
    except bindings.HTCondorException:
        return "HTCondorException"
    if not hasattr(result, "keys"):
        return result
    # how many jobs there are in all, a schedd counts now and then
    return {name: result[name] for name in sorted(set(result.keys()) - {"TotalJobAds"})}


def acts_and_edits(bindings: Any, schedd: Any) -> list[object]:
    """What act and edit answer."""
    idle = f"{JOB}requirements = false\n"
    clusters = {name: schedd.submit(bindings.Submit(idle), n).cluster() for name, n in (("A", 4), ("B", 2))}

    def meant(spec: Any) -> Any:
        if isinstance(spec, tuple):
            return clusters[spec[0]]
        if isinstance(spec, list):
            return [meant(item) for item in spec]
        return spec if isinstance(spec, float) else re.sub(r"\bA\b", str(clusters["A"]), spec)

    answers: list[object] = []
    for what, spec in ACTS_AND_EDITS:
        if what.startswith("edit"):
            answer = outcome(bindings, schedd.edit, meant(spec), "Mine", what.removeprefix("edit "))
        else:
            answer = outcome(bindings, schedd.act, getattr(bindings.JobAction, what), meant(spec))
        answers.append([what, spec, answer])
    return answers


def requirements(bindings: Any, schedd: Any) -> dict[str, bool]:
    """Which expressions, from the standard input, let a job run whose Requirements they are.

    Waits for all that do not say "never".
    """
    clusters: dict[str, int] = {}
    for expression in json.load(sys.stdin):
        result = schedd.submit(bindings.Submit(f"{JOB}requirements = {expression}\n"))
        clusters[expression] = result.cluster()
    idle = {cluster for expression, cluster in clusters.items() if "never" in expression}
    end = time.monotonic() + PATIENCE_S
    waiting: set[int] = set(clusters.values())
    while time.monotonic() < end and not waiting <= idle:
        waiting = {ad["ClusterId"] for ad in schedd.query(projection=["ClusterId"])}
        time.sleep(0.2)
    schedd.act(bindings.JobAction.Remove, "true")
    return {expression: cluster not in waiting for expression, cluster in clusters.items()}


if __name__ == "__main__":
    module = importlib.import_module(sys.argv[1])
    print(json.dumps(globals()[sys.argv[2]](module, module.Schedd())))
