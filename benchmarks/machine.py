"""What a result was measured on."""

import datetime
import os
import platform
from pathlib import Path


def machine() -> dict[str, str | int]:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    return {
        "processor": model, "cores": os.cpu_count(), "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }
