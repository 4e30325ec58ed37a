"""HTCondor's bindings over the queue; see ``fetchwork.modules``."""

import os
import sys

# programs that have this directory on PYTHONPATH need not have fetchwork installed
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120
if _ROOT not in sys.path:
    sys.path.append(_ROOT)

from fetchwork.modules.overlay import lay_over  # noqa: E402

lay_over(__name__.rpartition(".")[2])
