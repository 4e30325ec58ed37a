"""From a host file to HTCondor configuration, and back: does HTCondor use what the file says?"""

from fetchwork.deploy.render import CONDOR_FILE, UNIT_FILE, render

__all__ = ["CONDOR_FILE", "UNIT_FILE", "render"]
