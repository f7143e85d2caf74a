"""The cases of bench/fleet/bulk. Each prints what it does and returns its figures; `wrong` lists missed goals."""

import contextlib
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import time

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
import simulated_hosts
from comparison import machine

WORDS = ("the river carries boats towards an old harbour where merchants trade silk pepper and glass while children watch from windows "
         "above narrow streets of stone and every evening lamps are lit along the water before music begins").split()
KINDS = ("worker", "billow", "runner", "driver", "host", "head")
RESUME_GOAL_S = 10.0
_SAMPLE = 500  # rows whose vectors are compared
_GIVE_UP_S = 6 * 3600


def texts(n, n_words, seed):
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=n_words)) + f" {i}" for i in range(n)]


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


class Place:
    """Simulated hosts with MiniLM, and a head."""

    def __init__(self, args, folder, n_hosts, threads):
        self.folder = folder
        self.program = str(args.billow.resolve())
        self.threads = threads
        self.network = simulated_hosts.Network(folder / "hosts")
        self.head = self.network.add("head")
        self.hosts = [self.network.add(f"host{i}") for i in range(1, n_hosts + 1)]
        self.start_billow(self.hosts[0])
        create = subprocess.run(["ip", "netns", "exec", self.hosts[0]._namespace, self.program, "create", "all-minilm"], cwd=args.model,
                                env={**os.environ, "BILLOW_HOST": "127.0.0.1:11434"}, capture_output=True, text=True, check=False)
        if create.returncode != 0:
            raise SystemExit(f"cannot create the model: {create.stderr}")

    def start_billow(self, host):
        host.start_billow(self.program, self.folder / "models", ["--threads", self.threads])

    def start_cluster(self):
        self.head.start_ray()
        for host in self.hosts:
            host.start_ray(self.head)

    def driver(self, words, log):
        command = [sys.executable, "-m", "billow_ray", *words, "--ray-address", f"{self.head.address}:{simulated_hosts.RAY_PORT}"]
        return self.head.start(command, log, {"BILLOW_HOST": f"{self.hosts[0].address}:11434"})

    def shards_begun(self):
        """How many shards have begun, by the requests that only the begin of a shard sends."""
        n = 0
        for host in self.hosts:
            with contextlib.suppress(OSError):
                n += host.answered("/api/server")
        return n


def _parts(out):
    return sum(name.startswith("part-") for name in os.listdir(out)) if out.is_dir() else 0


class Chaos:
    """Runs a job and kills at seeded moments, by the number of finished shards."""

    def __init__(self, place, args, rows, out):
        self.place, self.out = place, out
        self.chance = random.Random(args.seed)
        kinds = [KINDS[i % len(KINDS)] for i in range(args.kills)]
        self.chance.shuffle(kinds)
        self.kinds = kinds
        self.words = ["embed", "-m", "all-minilm", "--in", place.folder / "in.parquet", "--out", out, "--keep", "id", "--shard-rows",
                      args.shard_rows, "--patience", "20"]
        n_shards = -(-rows // args.shard_rows)
        self.moments = sorted(self.chance.uniform(0.02, 0.85) * n_shards for _ in kinds)
        self.events = []
        self.starts = 0

    def begin(self):
        self.starts += 1
        self.process = self.place.driver(self.words, "driver.log")

    def log(self):
        return (self.place.head.folder / "driver.log").read_text()

    def run(self):
        self.begin()
        deadline = time.monotonic() + _GIVE_UP_S
        while True:
            if self.process.poll() is not None:
                if self.process.returncode == 0:
                    return
                if self.process.returncode != 75:
                    raise SystemExit(f"the driver ended with status {self.process.returncode}:\n{self.log()[-3000:]}")
                say("the driver asks to be run again (status 75)")
                self.begin()
            if time.monotonic() > deadline:
                raise SystemExit("the job does not end")
            if self.kinds and _parts(self.out) >= self.moments[0]:
                self.moments.pop(0)
                self.strike(self.kinds.pop(0))
            time.sleep(0.05)

    def strike(self, kind):
        host = self.chance.choice(self.place.hosts)
        done = _parts(self.out)
        began = time.monotonic()
        seconds = getattr(self, kind)(host)
        event = {"kind": kind, "host": host.name, "parts": done, "resumed_s": round(seconds, 2), "load": round(os.getloadavg()[0], 1),
                 "with_restart_s": round(time.monotonic() - began, 2)}
        self.events.append(event)
        say(f"kill {len(self.events)}: {kind} on {host.name} after {done} parts; work again after {seconds:.1f} s "
            f"({event['with_restart_s']} s with the restart), load {event['load']}")

    def wait_for(self, changed):
        """Seconds until `changed()` is true, or until the job is done."""
        began = time.monotonic()
        while time.monotonic() - began < 300:
            with contextlib.suppress(OSError):
                if changed() or self.process.poll() == 0:
                    return time.monotonic() - began
            time.sleep(0.1)
        raise SystemExit(f"no work for 300 s:\n{self.log()[-3000:]}")

    def wait_for_vectors(self, host):
        with contextlib.suppress(OSError):
            before = host.embedded()
            return self.wait_for(lambda: host.embedded() > before)
        return self.wait_for(lambda: host.embedded() > 0)

    # Each kind returns the seconds from the moment that its documentation names until shards make progress again.

    def worker(self, host):
        """A worker process of Ray, in the middle of a shard. From the kill, until the host has a new vector."""
        self.wait_for(lambda: host.kill(["ray::_task"]) > 0)
        return self.wait_for_vectors(host)

    def billow(self, host):
        """The server, which starts again after half a second, as under systemd. From the kill, until it has a new vector."""
        began = time.monotonic()
        host.kill(["serve --node-name"])
        time.sleep(0.5)
        self.place.start_billow(host)
        self.wait_for(lambda: host.embedded() > 0)
        return time.monotonic() - began

    def runner(self, host):
        """The process of the model. From the kill, until there is a new vector."""
        self.wait_for(lambda: host.kill(["exe runner"]) > 0)
        return self.wait_for_vectors(host)

    def driver(self, host):
        """From the start of the next driver, until a shard begins."""
        self.place.head.kill(["-m billow_ray"])
        self.process.wait(30)
        before = self.place.shards_begun()
        began = time.monotonic()
        self.begin()
        self.wait_for(lambda: self.place.shards_begun() > before)
        return time.monotonic() - began

    def host(self, host):
        """All processes of a host. From the moment at which its Ray runs again, until it has a new vector."""
        host.kill_all()
        self.place.start_billow(host)
        host.start_ray(self.place.head)
        return self.wait_for(lambda: host.embedded() > 0)

    def head(self, host):
        """The head of Ray and the driver. All nodes of Ray are then started again. From the start of the next driver, until a shard
        begins."""
        self.place.head.kill_all()
        for one in self.place.hosts:
            one.kill(["ray::", "raylet", "ray start", "/ray/"])
        self.place.start_cluster()
        before = self.place.shards_begun()
        began = time.monotonic()
        self.begin()
        self.wait_for(lambda: self.place.shards_begun() > before)
        return time.monotonic() - began


def check(place, out, rows, wanted):
    """Missed goals: rows that are lost, doubled or wrong."""
    wrong = []
    table = pa.concat_tables(pq.read_table(part, columns=["id", "error"]) for part in sorted(out.glob("part-*.parquet")))
    ids = table.column("id").to_numpy()
    counts = numpy.bincount(ids, minlength=rows)
    lost, doubled = int((counts == 0).sum()), int((counts > 1).sum())
    errors = rows - table.column("error").null_count
    if lost or doubled or errors or len(counts) != rows:
        wrong.append(f"{lost} rows lost, {doubled} doubled, {errors} with errors")
    sample = sorted(random.Random(0).sample(range(rows), min(_SAMPLE, rows)))
    found = {}
    for part in sorted(out.glob("part-*.parquet")):
        for row in pq.read_table(part, columns=["id", "embedding"], filters=[("id", "in", sample)]).to_pylist():
            found[row["id"]] = row["embedding"]
    from billow_ray import BillowEmbed

    connection_host = f"{place.hosts[0].address}:11434"
    place.network.open()
    vectors = BillowEmbed("all-minilm", host=connection_host)({"text": [wanted[i] for i in sample]})["embedding"]
    worst = float(numpy.abs(vectors - numpy.array([found[i] for i in sample])).max())
    if worst > 1e-5:
        wrong.append(f"a vector differs by {worst:.2g} from that of its text")
    return wrong, {"lost": lost, "doubled": doubled, "errors": errors, "max_difference": worst}


def kills(args, folder):
    rows = args.rows or (20_000 if args.quick else 1_000_000)
    args.shard_rows = args.shard_rows or (100 if args.quick else 2_500)
    words = args.words or (8 if args.quick else 30)
    wanted = texts(rows, words, args.seed)
    pq.write_table(pa.table({"id": pa.array(range(rows)), "text": wanted}), folder / "in.parquet", row_group_size=args.shard_rows)
    before, began = machine.ProcessorTime(), time.monotonic()
    out = folder / "out"
    place = Place(args, folder, args.hosts, args.threads or 1)
    try:
        for host in place.hosts[1:]:
            place.start_billow(host)
        place.start_cluster()
        say(f"{len(place.hosts)} hosts are up after {time.monotonic() - began:.1f} s; {rows} rows of {words} words, shards of {args.shard_rows}")
        chaos = Chaos(place, args, rows, out)
        began = time.monotonic()
        chaos.run()
        seconds = time.monotonic() - began
        wrong, figures = check(place, out, rows, wanted)
        report = subprocess.run([sys.executable, "-m", "billow_ray", "verify", str(out), "--deep", "--json"], capture_output=True, text=True, check=False)
        verified = json.loads(report.stdout)
        wrong += verified["wrong"]
        log = chaos.log()
    finally:
        place.network.close()
    slow = [event for event in chaos.events if event["resumed_s"] > RESUME_GOAL_S]
    figures |= {"case": "kills", "rows": rows, "words": words, "hosts": args.hosts, "shard_rows": args.shard_rows, "seed": args.seed,
                "seconds": round(seconds, 1), "rows_per_second": round(rows / seconds, 1), "kills": len(chaos.events),
                "driver_starts": chaos.starts, "shards_lost": len(re.findall(r"was lost and runs again", log)), "events": chaos.events,
                "slower_than_10_s": len(slow), "machine": machine.describe(), "others_percent": machine.ProcessorTime().since(before),
                "wrong": wrong}
    if len(chaos.events) < args.kills:
        wrong.append(f"only {len(chaos.events)} of {args.kills} kills before the end")
    say(f"{rows} rows in {seconds:.0f} s with {len(chaos.events)} kills: {figures['lost']} lost, {figures['doubled']} doubled, {figures['errors']} with "
        f"errors; {figures['shards_lost']} shards ran again; resumed after {statistics.median(e['resumed_s'] for e in chaos.events):.1f} s (median), "
        f"{max(e['resumed_s'] for e in chaos.events):.1f} s (max); {len(slow)} slower than 10 s")
    for line in wrong:
        say(f"WRONG: {line}")
    return figures


def _processor_seconds(pids):
    seconds = 0.0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def overhead(args, folder):
    rows = args.rows or (4_000 if args.quick else 100_000)
    words = args.words or 30
    shard_rows = args.shard_rows or (1_000 if args.quick else 20_000)
    lines = folder / "in.jsonl"
    with lines.open("w") as file:
        for i, text in enumerate(texts(rows, words, args.seed)):
            file.write(json.dumps({"id": i, "text": text}) + "\n")
    place = Place(args, folder, 1, args.threads or 2)
    (host,) = place.hosts
    before = machine.ProcessorTime()
    turns = {"billow embed": [], "billow-ray": []}
    processor = {"billow embed": [], "billow-ray": []}
    try:
        place.start_cluster()
        for round_number in range(args.rounds + 1):  # the first round warms up
            for name, times in turns.items():
                server = [pid for pid, command in host.processes() if "serve --node" in command or "exe runner" in command]
                used = _processor_seconds(server)
                began = time.monotonic()
                if name == "billow embed":
                    process = host.start([place.program, "embed", "--model", "all-minilm", "--in", lines, "--out", folder / f"v{round_number}.npy"],
                                         "embed.log", {"BILLOW_HOST": "127.0.0.1:11434"})
                else:
                    process = place.driver(["embed", "-m", "all-minilm", "--in", lines, "--out", folder / f"out{round_number}",
                                            "--shard-rows", shard_rows], "driver.log")
                if process.wait() != 0:
                    raise SystemExit(f"{name} failed: {(place.head.folder / 'driver.log').read_text()[-2000:]}")
                seconds = time.monotonic() - began
                if name == "billow-ray":
                    seconds_of_job = json.loads((folder / f"out{round_number}" / "_summary.json").read_text())["seconds"]
                    start_s = seconds - seconds_of_job
                else:
                    seconds_of_job, start_s = seconds, 0.0
                if round_number:
                    times.append(seconds_of_job)
                    processor[name].append(_processor_seconds(server) - used)
                say(f"round {round_number}: {name} {seconds_of_job:.2f} s ({rows / seconds_of_job:.0f} rows/s), start of the driver {start_s:.1f} s, "
                    f"load {os.getloadavg()[0]:.1f}")
    finally:
        place.network.close()
    alone, ray = (statistics.median(turns[name]) for name in turns)
    figures = {"case": "overhead", "rows": rows, "words": words, "shard_rows": shard_rows, "seconds": turns, "server_processor_seconds": processor,
               "overhead_percent": round(100 * (ray / alone - 1), 1), "machine": machine.describe(),
               "others_percent": machine.ProcessorTime().since(before), "wrong": []}
    say(f"{rows} rows: billow embed {alone:.2f} s, billow-ray {ray:.2f} s: {figures['overhead_percent']} % more (medians of {args.rounds})")
    return figures


def resume(args, folder):
    """Empty files stand for finished parts: only their names are read."""
    from billow_ray.driver import Driver, Options
    from billow_ray.job import Input, Job, Shard, part_names, read_job, write_job
    from billow_ray.progress import Progress
    from billow_ray.recipe import embed_recipe
    from billow_ray.storage import place_of

    out = place_of(str(folder / "out"))
    shards = [Shard(i, 0, i, i + 1, 0, i * 50_000, 50_000) for i in range(args.shards)]
    job = Job("embed", "m", embed_recipe("sha256:" + "a" * 64), {"text": "text"}, [], pa.schema([]), "float32", 384, 128, 4, 0,
              [Input("/in.parquet", "parquet", 1, 1, 50_000 * args.shards)], shards)
    write_job(out, job)
    for name in part_names(job)[:-1]:
        (folder / "out" / name).touch()

    class NoRay:
        """Takes the first task and stops."""

        put = staticmethod(lambda value: value)

        @staticmethod
        def remote(**_):
            return lambda function: function

    began, used = time.monotonic(), time.process_time()
    driver = Driver(NoRay, read_job(out), out, Options(), Progress())
    seconds, used = time.monotonic() - began, time.process_time() - used
    peak_mib = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/self/status").read_text()).group(1)) / 1024
    wrong = [] if list(driver._state.pending) == [args.shards - 1] else ["the missing shard is not the one that is left"]
    if peak_mib > 300:
        wrong.append(f"the driver has {peak_mib:.0f} MiB")
    say(f"{args.shards} shards, one of them missing: found after {seconds:.2f} s ({used:.2f} s of processor time), {peak_mib:.0f} MiB, load {os.getloadavg()[0]:.1f}")
    return {"case": "resume", "shards": args.shards, "seconds": round(seconds, 2), "processor_seconds": round(used, 2), "peak_mib": round(peak_mib), "machine": machine.describe(), "wrong": wrong}
