"""Event logs that an access point writes."""

from pathlib import Path

from tests.support.waiting import until

JOBS = "executable = /bin/true\nlog = {}\nqueue {}\n"


def entries(log: Path) -> list[str]:
    """The heads of a log's entries: event number and job."""
    if not log.exists():
        return []
    # a reader may see the beginning of an entry that is being written, and the whole entry a moment later
    seen = [""]

    def is_whole() -> bool:
        seen[0] = log.read_text()
        return not seen[0] or seen[0].endswith("...\n")

    until(is_whole, f"a whole entry at the end of {log}")
    return [
        part.strip().split(" ", 2)[0] + " " + part.strip().split(" ", 2)[1]
        for part in seen[0].split("...\n")[:-1]
    ]
