"""The document about options agrees with the code."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.commands import option_table
from tests.commands.oracle import Answer


def test_the_document_has_the_counts_and_each_refused_option(
    run: Callable[..., Answer], tmp_path: Path
) -> None:
    reasons = {
        (command, option): option_table.reason(run, tmp_path, command, option)
        for command, options in option_table.REFUSED.items()
        for option in options
    }
    made = option_table.document(reasons)
    if os.environ.get("FETCHWORK_WRITE_TABLE"):
        option_table.DOCUMENT.write_text(made)
    assert len(reasons) > 30
    assert option_table.DOCUMENT.read_text() == made
