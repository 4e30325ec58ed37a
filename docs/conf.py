"""Sphinx's settings for the documents: ``make docs`` writes them to build/docs, without a network.

The source directory is the repository's root, so a page that stands beside code is read where it is, and its
links lead to the other pages as they do in the repository.
"""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs.generate import filled  # noqa: E402
from fetchwork import __version__  # noqa: E402

project = "fetchwork"
author = "fetchwork developers"
release = version = __version__
html_title = f"fetchwork {__version__}"
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "fetchwork/**.md", "config-examples/**.md", "tests/**.md"]
exclude_patterns = [".*", "build", "dist", "**/peer_programs", "**/__pycache__"]
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]
# a console's output has no language, and TOML's and SQL's excerpts leave out what is said elsewhere
suppress_warnings = ["misc.highlighting_failure"]

_LINK = re.compile(r"\[([^\]\n]+)\]\(([^)#:\s]+/?)\)")


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    """Fill in the generated parts of a page, and name a linked directory without a link: it is no page."""
    here = (ROOT / name).parent
    source[0] = _LINK.sub(
        lambda link: link[1] if (here / link[2]).is_dir() else link[0],
        filled(source[0]),
    )


def _begin_at_the_front_page(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        Path(app.outdir, "index.html").write_text(
            '<title>fetchwork</title><meta http-equiv="refresh" content="0; url=docs/index.html">'
        )


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", _read)
    app.connect("build-finished", _begin_at_the_front_page)
