"""``python -m fetchwork``: the command line, for an environment whose directory of commands is not known."""

from fetchwork.cli import main

main()
