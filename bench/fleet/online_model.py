"""Simulates conversations on several hosts: handles events in the order of their times, without any process. Uses HAProxy's rule for hosts that
have more than their share (chash_server_is_eligible), and the stand-in's times for prompts and answers."""

import bisect
import heapq
import itertools
import random

POINTS = 1600  # of a host on the ring: weight 100, 16 points per unit of weight
SYSTEM, FIRST, TURN = 1000, 120, 70  # tokens: system prompt, first message, a message and its answer
N_SYSTEMS = 4
N_TURNS = 6


class Host:
    def __init__(self):
        self.n_sent = self.n_running = 0
        self.waiting = []
        self.prefill_until = 0.0
        self.cached = {}  # conversation -> its tokens that are cached
        self.systems = set()


class Talk:
    def __init__(self, number, source):
        self.number = number
        self.key = source.getrandbits(32)
        self.turn = 0
        self.host = self.first = None
        self.began = 0.0


def calculate(n_hosts, pick, n_clients, slots, decode_seconds, prefill, seed=1, seconds=200.0):
    """Simulates `n_clients` parallel conversations per host. `pick`: "pinned", "random", or a bound in per cent (0: none) for the hash of the
    conversation. Returns answers_per_second, cached_share, first_token_p50 and first_token_p99, measured after the first third of the time."""
    world = World(n_hosts, pick, slots, decode_seconds, prefill, random.Random(seed))
    return world.run(n_clients * n_hosts, seconds, seconds / 3)


class World:
    def __init__(self, n_hosts, pick, slots, decode_seconds, prefill, source):
        self.hosts = [Host() for _ in range(n_hosts)]
        self.pick, self.slots, self.decode_seconds, self.prefill, self.source = pick, slots, decode_seconds, prefill, source
        ring = sorted((source.getrandbits(32), host) for host in range(n_hosts) for _ in range(POINTS))
        self.points, self.owners = [point for point, _ in ring], [host for _, host in ring]
        self.numbers, self.order = itertools.count(), itertools.count()
        self.events = []
        self.n_answers = self.n_prompt = self.n_cached = 0
        self.first_tokens = []

    def choose(self, talk):
        if self.pick == "pinned":
            return talk.number % len(self.hosts)
        if self.pick == "random":
            return self.source.randrange(len(self.hosts))
        begin = bisect.bisect(self.points, talk.key)
        owner = self.owners[begin % len(self.owners)]
        full = set()
        for i in range(begin, begin + len(self.owners) if self.pick else begin):
            host = self.owners[i % len(self.owners)]
            if host not in full and self.has_room(host):
                return host
            full.add(host)
            if len(full) == len(self.hosts):
                break
        return owner

    def has_room(self, host):
        """Returns whether the host is below HAProxy's limit: requests of all hosts and the new one, times the bound, per host; at least 1."""
        total = ((sum(one.n_sent for one in self.hosts) + 1) * self.pick + 99) // 100
        n = len(self.hosts)
        share = total // n + ((host + 1) * (total % n) // n - host * (total % n) // n)
        return self.hosts[host].n_sent < max(1, share)

    def start(self, now, host, talk):
        n_tokens = SYSTEM + FIRST + TURN * talk.turn
        system = talk.number % N_SYSTEMS
        n_cached = host.cached.get(talk.number, SYSTEM if system in host.systems else 0)
        host.systems.add(system)
        host.cached[talk.number] = n_tokens
        host.n_running += 1
        host.prefill_until = max(host.prefill_until, now) + (n_tokens - n_cached) / self.prefill
        talk.first = host.prefill_until
        if now >= self.counted_from:
            self.n_prompt += n_tokens
            self.n_cached += n_cached
        heapq.heappush(self.events, (host.prefill_until + self.decode_seconds, next(self.order), talk))

    def submit(self, now, talk):
        talk.host = host = self.hosts[self.choose(talk)]
        talk.began = now
        host.n_sent += 1
        if host.n_running < self.slots:
            self.start(now, host, talk)
        else:
            host.waiting.append(talk)

    def finish(self, now, talk):
        host = talk.host
        host.n_sent -= 1
        host.n_running -= 1
        if now >= self.counted_from:
            self.n_answers += 1
            self.first_tokens.append(talk.first - talk.began)
        if host.waiting:
            self.start(now, host, host.waiting.pop(0))
        talk.turn += 1
        return talk if talk.turn < N_TURNS else Talk(next(self.numbers), self.source)

    def run(self, n_clients, seconds, counted_from):
        self.counted_from = counted_from
        for i in range(n_clients):
            heapq.heappush(self.events, (i * 5 / n_clients, next(self.order), Talk(next(self.numbers), self.source)))
        while self.events and self.events[0][0] < seconds:
            now, _, talk = heapq.heappop(self.events)
            self.submit(now, talk if talk.host is None else self.finish(now, talk))
        self.first_tokens.sort()
        return {"answers_per_second": self.n_answers / (seconds - counted_from), "cached_share": self.n_cached / self.n_prompt,
                "first_token_p50": self.first_tokens[len(self.first_tokens) // 2],
                "first_token_p99": self.first_tokens[int(0.99 * len(self.first_tokens))]}
