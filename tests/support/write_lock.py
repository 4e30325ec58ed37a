"""Print a lock file from pip's installation report: ``make lock`` calls it."""

import json
import sys
from pathlib import Path

report = json.loads(Path(sys.argv[1]).read_text())
names = {item["metadata"]["name"]: item["metadata"]["version"] for item in report["install"]}
names.pop("fetchwork", None)
print("# What CI and `make` install. Written by `make lock` with Python 3.11, the oldest that is supported.")
for name in sorted(names, key=str.lower):
    print(f"{name}=={names[name]}")
