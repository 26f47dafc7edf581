"""`--update`: what is left to do after an interrupted run, or after sources have changed.

An output has the modification time of its source. Equal times mean that it was made from the source as it is. Some file
systems cut times to 1 s, 10 ms (exFAT) or 100 ns (NTFS). So the source's time is cut as those of the output are.
"""

import dataclasses
import os
import stat
from collections.abc import Iterable

from dqcodec.command.plan import Job
from dqcodec.command.walk import DONE, LeftOut

_GRAINS = (10**9, 10**7, 1000, 100, 1)  # of times, nanoseconds


def pending(jobs: Iterable[Job], *, force: bool) -> tuple[list[Job], list[LeftOut]]:
    """The jobs that are left to do, and the sources whose outputs have their times.

    A job whose output is newer than its source gets an error, unless `force`: somebody else may have made that file.
    """
    left, done = [], []
    for job in jobs:
        age = None if job.error else _age(job)
        if age == 0:
            done.append(LeftOut(job.source, DONE))
        elif age is None or age > 0 or force:
            left.append(job)
        else:
            left.append(dataclasses.replace(job, error=f"{job.target} is newer than its source (-f overwrites it)"))
    return left, done


def _age(job: Job) -> int | None:
    """How much older the output is than the source, nanoseconds, as the output's file system keeps times.

    None if there are not two files to compare.
    """
    if job.has_stream:
        return None
    try:
        source, target = os.stat(job.source).st_mtime_ns, os.stat(job.target)
    except OSError:
        return None
    if not stat.S_ISREG(target.st_mode):
        return None
    grain = next(each for each in _GRAINS if not (target.st_mtime_ns % each or target.st_ctime_ns % each))
    return source // grain * grain - target.st_mtime_ns
