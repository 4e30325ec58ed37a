"""Makes HTCondor configuration from a host file, and checks that HTCondor uses it."""

from fetchwork.deploy.render import CONDOR_FILE, UNIT_FILE, render

__all__ = ["CONDOR_FILE", "UNIT_FILE", "render"]
