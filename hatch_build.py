"""Hatchling's build hook: the manual page, made of the commands' help as a wheel is built."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPage(BuildHookInterface[Any]):
    """Puts fetchwork.1 where man looks for it. The commands' modules import click alone at their top."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.made = tempfile.TemporaryDirectory()
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from fetchwork.cli.manpage import manual_page
        finally:
            sys.path.remove(self.root)
        page = Path(self.made.name, "fetchwork.1")
        page.write_text(manual_page())
        build_data["shared_data"][str(page)] = "share/man/man1/fetchwork.1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.made.cleanup()
