"""Print the lowest version of each dependency that pyproject.toml allows: ``make test-lowest`` calls it."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent.parent / "pyproject.toml").read_text())["project"]
for wanted in [*project["dependencies"], *project["optional-dependencies"]["test"]]:
    print(re.sub(r">=([\d.]+).*", r"==\1", wanted))
