"""Describes the machine and its other load."""

import json
import os
import pathlib
import resource
import subprocess


def _read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:
        return ""


def _field(text, name):
    for line in text.splitlines():
        if line.split(":")[0].strip() == name:
            return line.split(":", 1)[1].strip()
    return ""


def physical_cores():
    """Returns the number of cores that this process may use. Two threads of one core have the same siblings."""
    cpus = os.sched_getaffinity(0)
    siblings = [_read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in cpus]
    return max(1, len({text for text in siblings if text}) + siblings.count(""))


def describe():
    memory = _read("/proc/meminfo")
    gib = {name: int((_field(memory, name) or "0").split()[0]) / 2**20 for name in ("MemTotal", "MemAvailable")}
    return {
        "processor": _field(_read("/proc/cpuinfo"), "model name"),
        "cores": physical_cores(),
        "processors": len(os.sched_getaffinity(0)),
        "numa_nodes": len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1,
        "memory_gib": round(gib["MemTotal"], 1),
        "memory_available_gib": round(gib["MemAvailable"], 1),
        "load_average": list(os.getloadavg()),
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled").strip(),
    }


class ProcessorTime:
    """Seconds of all processors since boot, seconds that the hypervisor took, busy seconds, and the busy seconds of ended child
    processes."""

    def __init__(self, stat=None, own=None):
        ticks = [int(word) for word in (stat or _read("/proc/stat")).split("\n")[0].split()[1:9]]
        ticks += [0] * (8 - len(ticks))
        seconds = [tick / os.sysconf("SC_CLK_TCK") for tick in ticks]
        self.total, self.steal, self.busy = sum(seconds), seconds[7], sum(seconds) - seconds[3] - seconds[4] - seconds[7]
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.own = usage.ru_utime + usage.ru_stime if own is None else own

    def since(self, before):
        """Returns the shares of processor time that the hypervisor and other programs took, in percent."""
        total = max(1e-9, self.total - before.total)
        others = self.busy - before.busy - (self.own - before.own)
        return {"steal_percent": 100 * (self.steal - before.steal) / total, "others_percent": max(0.0, 100 * others / total)}


CANARIES = {"peak/f32/all": "registers, GMAC/s", "peak/read_256KiB/all": "L2, GB/s", "peak/read_512MiB/all": "memory, GB/s"}


def canary(billow):
    """Returns the rates of a loop in registers, of a loop in L2 and of a loop that reads memory. Other load on the machine slows
    these loops, too. Returns None if billow_micro is not built."""
    micro = pathlib.Path(billow).with_name("billow_micro")
    if not micro.exists():
        return None
    names = "|".join(CANARIES)
    done = subprocess.run([micro, f"--benchmark_filter=^({names})/", "--benchmark_format=json"], capture_output=True,
                          timeout=120, check=False)
    return parse_canary(done.stdout) if done.returncode == 0 else None


def parse_canary(text):
    rates = {}
    for row in json.loads(text)["benchmarks"]:
        for name, what in CANARIES.items():
            if row["name"].startswith(name):
                rates[what] = row.get("GMAC/s", row.get("GB/s"))
    return rates


def canary_line(rates, before=None):
    if rates is None:
        return "not measured: build the target billow_micro"
    parts = []
    for what, rate in rates.items():
        change = f" ({100 * (rate / before[what] - 1):+.0f} %)" if before and before.get(what) else ""
        parts.append(f"{what} {rate:.0f}{change}")
    return "; ".join(parts)
