"""The end of a process, whatever its threads are at."""

from __future__ import annotations

import subprocess
import sys


def test_a_disk_that_never_answers_does_not_keep_the_process() -> None:
    program = (
        "import asyncio, os\n"
        "from zotd.base.limits import Limits\n"
        "from zotd.cli.app import drive\n"
        "async def work():\n"
        "    stuck = asyncio.create_task(asyncio.to_thread(os.read, os.pipe()[0], 1))\n"
        "    await asyncio.wait([stuck], timeout=0.01)\n"
        "    stuck.cancel()\n"
        "    print('done')\n"
        "    return 3\n"
        "raise SystemExit(drive(work(), Limits(threads_end_s=0.01), fast=True))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=10, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "done\n", "")
