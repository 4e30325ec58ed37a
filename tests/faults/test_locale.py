"""An agent in a locale in which the case of some letters differs from ASCII's."""

from pathlib import Path

from tests.faults.harness import Pool
from tests.support import locales


async def test_an_agent_matches_in_any_language(pool: Pool, tmp_path: Path) -> None:
    environment = locales.environment("tr_TR.UTF-8", tmp_path)
    wrapper = ["env", "-u", "LC_ALL", *(f"{name}={environment[name]}" for name in ("LANG", "LOCPATH"))]
    host = await pool.add_host(slots=2, wrapper=wrapper)
    # the slot's ad has Disk and MachineResources
    pool.submit([0.1] * 3, Requirements="/Expr(TARGET.DISK > 0 && size(target.MACHINERESOURCES) > 0)/")
    pool.submit([0.1], Requirements="/Expr(my.REQUESTDISK >= 0)/")
    await pool.until_done()
    assert pool.faults() == []
    assert host.agent.running
