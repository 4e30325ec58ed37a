"""COBalD and TARDIS: as many drones as the queue's idle jobs would fill. One drone is one pilot.

    pip install cobald-tardis
    FETCHWORK_DSN=service=pool python3 -m cobald.daemon drones.py

tardis.yml beside it names the places where drones start; pilot.ad is the expected ad of a drone's slot. A
drone that the jobs no longer need is told to drain; the pilot itself ends when it has had no job for a while.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
from pathlib import Path

import trio
from cobald.daemon import service
from cobald.interfaces import Controller, Pool
from tardis.resources.poolfactory import create_composite_pool

HERE = Path(__file__).parent
#: cores of a drone: MachineMetaData of tardis.yml
CORES = 8
INTERVAL_S = float(os.environ.get("FETCHWORK_DEMAND_INTERVAL", "30"))

log = logging.getLogger("cobald.runtime.fetchwork")


@service(flavour=trio)
class QueueDemand(Controller):
    """Asks for the drones that are at work and those that idle jobs would fill."""

    def __init__(self, target: Pool, slot_ad: Path, most: int) -> None:
        super().__init__(target)
        self._slot_ad = slot_ad
        self._most = most

    async def run(self) -> None:
        """Ask the queue again and again; while it does not answer, the demand stays."""
        while True:
            try:
                drones = await trio.to_thread.run_sync(self._drones)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                log.warning("the queue's demand is not known: %s", error)
            else:
                busy = self.target.supply * self.target.allocation
                self.target.demand = min(busy + drones * CORES, self._most * CORES)
            await trio.sleep(INTERVAL_S)

    def _drones(self) -> int:
        command = ["fetchwork", "demand", "--json", "--slot-ad", str(self._slot_ad)]
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
        return int(json.loads(done.stdout)["slots"])


pipeline = QueueDemand(create_composite_pool(str(HERE / "tardis.yml")), slot_ad=HERE / "pilot.ad", most=100)
