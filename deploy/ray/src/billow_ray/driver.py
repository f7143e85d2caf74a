"""Runs the shards of a job as tasks of Ray. The driver holds nothing that a rerun does not find in the output folder.

A task is one shard: a few hundred bytes go to it, and a few hundred come back. No row passes through Ray. A lost worker or
host costs the shards that it had, and other hosts do them again.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from .errors import BillowUnavailable, InputFault, JobError
from .job import Job, part_names
from .progress import Progress
from .storage import Place, list_files, place_of
from .work import ShardResult, count_errors, run_shard_or_report, too_many

RESOURCE = "billow"  # a host offers one for each shard that may run on it: two keep it busy
_POLL_S = 1.0
_SLOTS_EVERY_S = 2.0
_AVOID_S = 60.0  # a host whose Billow did not answer gets no shard for this long, if another host has room
_MAX_LOSSES = 20  # of one shard
_MAX_DELAY_S = 30.0  # before a shard that was lost several times runs again
_LOCAL_SLOTS = 2


@dataclass
class Options:
    address: str = "auto"
    host: str | None = None  # of Billow, on each host; None: as BILLOW_HOST of that host says
    patience_s: float = 60.0
    wait_s: float = 300.0  # how long no host at all may offer the resource
    max_losses: int = _MAX_LOSSES


@dataclass
class _State:
    pending: deque[int]
    running: dict[Any, int] = field(default_factory=dict)
    delayed: list[tuple[float, int]] = field(default_factory=list)  # (time from which it may run, shard)
    losses: Counter[int] = field(default_factory=Counter)
    avoid: dict[str, float] = field(default_factory=dict)  # node id of Ray to the time until which it is avoided
    errors: dict[int, int] = field(default_factory=dict)  # shard to rows


def _task(job: Job, out: str, host: str | None, errors_before: int, patience_s: float) -> dict[str, Any]:
    import ray

    result = run_shard_or_report(job, place_of(out), host, errors_before, patience_s)
    return {**result, "ray_node": ray.get_runtime_context().get_node_id()}


class Driver:
    """Runs what is missing of a job. `ray` must be initialised: see run_on_ray."""

    def __init__(self, ray: Any, job: Job, out: Place, options: Options, progress: Progress) -> None:
        self._ray, self._job, self._out, self._options, self._progress = ray, job, out, options, progress
        names = part_names(job)
        present = {fact.name for fact in list_files(out)}
        missing = [number for number, name in enumerate(names) if name not in present]
        self._state = _State(deque(missing), errors=count_errors(out))
        missing_set = set(missing)
        self._state.errors = {n: errors for n, errors in self._state.errors.items() if n not in missing_set}
        progress.begin(job, missing, sum(self._state.errors.values()))
        # The driver submits lost shards again itself, so that each loss is counted and logged.
        self._remote = ray.remote(num_cpus=0, resources={RESOURCE: 1}, max_retries=0)(_task)

    def run(self) -> None:
        """Returns when all shards are published. Raises InputFault, JobError, and BillowUnavailable if no host is left."""
        state = self._state
        try:
            slots, checked = self._slots(), time.monotonic()
            last_slot = checked
            while state.pending or state.running or state.delayed:
                now = time.monotonic()
                state.pending.extendleft(number for at, number in state.delayed if at <= now)
                state.delayed = [entry for entry in state.delayed if entry[0] > now]
                if now - checked >= _SLOTS_EVERY_S:
                    slots, checked = self._slots(), now
                last_slot = now if slots else last_slot
                if now - last_slot > self._options.wait_s:
                    raise BillowUnavailable(f"no host of the cluster offers the resource '{RESOURCE}' (ray start --resources)")
                while state.pending and len(state.running) < 2 * slots:
                    self._submit(state.pending.popleft())
                if not state.running:
                    time.sleep(_POLL_S)
                    continue
                done, _ = self._ray.wait(list(state.running), num_returns=1, timeout=_POLL_S)
                for reference in done:
                    self._finish(reference)
                self._progress.show(len(state.running), slots)
        except BaseException:
            for reference in state.running:
                self._ray.cancel(reference, force=True)
            raise

    def _slots(self) -> int:
        return int(sum(node["Resources"].get(RESOURCE, 0) for node in self._ray.nodes() if node["Alive"]))

    def _submit(self, number: int) -> None:
        state, now = self._state, time.monotonic()
        state.avoid = {node: until for node, until in state.avoid.items() if until > now}
        hosts = {node["NodeID"] for node in self._ray.nodes() if node["Alive"] and node["Resources"].get(RESOURCE, 0) > 0} \
            if state.avoid else set()
        avoided = sorted(hosts & set(state.avoid))
        remote = self._remote
        if avoided and len(avoided) < len(hosts):
            remote = remote.options(label_selector={"ray.io/node-id": f"!in({','.join(avoided)})"})
        reference = remote.remote(self._job.head(number), self._out.uri, self._options.host, sum(state.errors.values()),
                                  self._options.patience_s)
        state.running[reference] = number

    def _finish(self, reference: Any) -> None:
        state = self._state
        number = state.running.pop(reference)
        try:
            value = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, (JobError, InputFault)):
                raise cause from None
            if isinstance(cause, OSError):  # the storage of this host
                self._lose(number, f"{type(cause).__name__}: {cause}")
                return
            raise JobError(f"shard {number}: {error}") from None
        except self._ray.exceptions.RayError as error:
            self._lose(number, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            return
        node = value.pop("ray_node")
        result = ShardResult(**value)
        if result.status == "unavailable":
            state.avoid[node] = time.monotonic() + _AVOID_S
            self._lose(number, f"{result.node}: {result.why}")
            return
        if result.errors:
            state.errors[number] = result.errors
        self._progress.add(result)
        if 0 <= self._job.max_errors < sum(state.errors.values()):
            raise InputFault(too_many(self._job.max_errors, self._progress.examples))

    def _lose(self, number: int, why: str) -> None:
        state = self._state
        state.losses[number] += 1
        self._progress.lost(number, why)
        if state.losses[number] >= self._options.max_losses:
            raise BillowUnavailable(f"shard {number} was lost {state.losses[number]} times; the last time: {why}")
        delay = min(2.0 ** (state.losses[number] - 1), _MAX_DELAY_S) if state.losses[number] > 1 else 0.0
        state.delayed.append((time.monotonic() + delay, number))


def run_on_ray(job: Job, out: Place, options: Options, progress: Progress) -> None:
    """Joins the cluster, runs what is missing, and leaves. Exceptions are those of Driver.run."""
    try:
        import ray
    except ImportError:
        raise JobError("Ray is not installed: pip install 'billow-ray[ray]', or use 'shard' without Ray") from None
    try:
        local: dict[str, Any] = {"resources": {RESOURCE: _LOCAL_SLOTS}, "include_dashboard": False} if options.address == "local" else {}
        ray.init(address=options.address, logging_level=logging.ERROR, log_to_driver=False, configure_logging=False,
                 namespace="billow", **local)
    except (ConnectionError, RuntimeError) as error:
        raise BillowUnavailable(f"no cluster of Ray at '{options.address}': {error}") from None
    try:
        Driver(ray, job, out, options, progress).run()
    except ray.exceptions.RaySystemError as error:
        raise BillowUnavailable(f"the cluster is gone: {error}") from None
    finally:
        sys.stdout.flush()
        ray.shutdown()
