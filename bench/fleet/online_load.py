"""Load for the benchmarks of online work: conversations of several turns, in a closed loop, as streams of Ollama's API."""

import asyncio
import collections
import json
import random
import time

N_SYSTEMS = 4  # system prompts that conversations share
WORDS = ("water", "stone", "river", "light", "garden", "winter", "paper", "silver", "morning", "answer", "window", "letter")


def text_of(source, n_bytes):
    text = ""
    while len(text) < n_bytes:
        text += source.choice(WORDS) + " "
    return text[:n_bytes]


class Conversation:
    def __init__(self, number, seed, system_bytes, first_bytes, turn_bytes, n_turns):
        self.source = random.Random(seed * 1_000_003 + number)
        self.number = number
        self.turn_bytes = turn_bytes
        self.n_left = n_turns
        system = text_of(random.Random(number % N_SYSTEMS), system_bytes)
        self.messages = [{"role": "system", "content": system},
                         {"role": "user", "content": f"conversation {number} of {seed}: " + text_of(self.source, first_bytes)}]

    def go_on(self, answer):
        """Adds an answer and the next message. Returns whether the conversation goes on."""
        self.n_left -= 1
        self.messages.append({"role": "assistant", "content": answer})
        self.messages.append({"role": "user", "content": text_of(self.source, self.turn_bytes)})
        return self.n_left > 0


class Result:
    """What all clients saw. `broken` has the streams that ended early: (time, node). `failed` has every other failure."""

    def __init__(self):
        self.first_token, self.answers = [], []  # seconds; times of ends
        self.n_prompt = self.n_cached = 0
        self.nodes = collections.Counter()
        self.broken, self.failed = [], []

    def rate(self, begin, end):
        return sum(begin <= at < end for at in self.answers) / (end - begin)

    def cached_share(self):
        return self.n_cached / max(1, self.n_prompt)


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("nan")


class Connection:
    """A kept connection of HTTP/1.1. A request that finds it closed goes out once more on a new one."""

    def __init__(self, address, port):
        self.where = (address, port)
        self.reader = self.writer = None

    async def send(self, path, body):
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        for attempt in range(2):
            is_new = self.writer is None
            if is_new:
                self.reader, self.writer = await asyncio.open_connection(*self.where, limit=1 << 20)
            try:
                self.writer.write(head.encode() + data)
                answer = await self.reader.readuntil(b"\r\n\r\n")
                break
            except (ConnectionError, asyncio.IncompleteReadError):
                self.close()
                if is_new or attempt == 1:
                    raise
        line, *fields = answer.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields if field)}
        return int(line.split(" ")[1]), headers

    async def pieces(self, headers):
        """The body, piece by piece."""
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline() or b"-1", 16):
                if size < 0:
                    raise ConnectionError("the connection ended")
                yield await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readline()
        else:
            yield await self.reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection", "").lower() == "close":
            self.close()

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


class Load:
    """`n_clients` clients in parallel. `pick(conversation)` names the address and port for a request."""

    def __init__(self, pick, n_clients, n_tokens, seed=1, system_bytes=4000, first_bytes=400, turn_bytes=200, n_turns=6):
        self.pick, self.n_clients, self.n_tokens, self.seed = pick, n_clients, n_tokens, seed
        self.shape = (system_bytes, first_bytes, turn_bytes, n_turns)
        self.result = Result()
        self.counted_from = 0.0
        self.next_number = 0

    async def run(self, warm_up, seconds):
        begin = time.monotonic()
        self.counted_from = begin + warm_up
        self.end = begin + warm_up + seconds
        await asyncio.gather(*(self.client(i) for i in range(self.n_clients)))
        return self.result

    async def client(self, i):
        connections = {}
        await asyncio.sleep(i * 0.013)
        while time.monotonic() < self.end:
            conversation = Conversation(self.next_number, self.seed, *self.shape)
            self.next_number += 1
            while time.monotonic() < self.end:
                where = self.pick(conversation)
                connection = connections.setdefault(where, Connection(*where))
                answer = await self.turn(connection, conversation)
                if answer is None:
                    connection.close()
                    await asyncio.sleep(0.05)
                    break
                if not conversation.go_on(answer):
                    break
        for connection in connections.values():
            connection.close()

    async def turn(self, connection, conversation):
        """Returns the answer, or nothing after a failure."""
        body = {"model": "m", "messages": conversation.messages, "stream": True, "options": {"num_predict": self.n_tokens, "temperature": 0}}
        begin = time.monotonic()
        node, answer, last, first = None, "", {}, None
        try:
            status, headers = await asyncio.wait_for(connection.send("/api/chat", body), 300)
            node = headers.get("x-billow-node")
            if status != 200:
                text = b"".join([piece async for piece in connection.pieces(headers)])
                self.result.failed.append((time.monotonic(), status, text[:200]))
                return None
            rest = b""
            async for piece in connection.pieces(headers):
                first = first or time.monotonic()
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    last = json.loads(line)
                    answer += last.get("message", {}).get("content", "")
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError, ValueError) as error:
            self.note_failure(node, first, error)
            return None
        if not last.get("done"):
            self.note_failure(node, first, "an end without done:true")
            return None
        self.count(begin, first, node, last)
        return answer

    def note_failure(self, node, first, error):
        if node is not None and first is not None:
            self.result.broken.append((time.monotonic(), node, str(error)))
        else:
            self.result.failed.append((time.monotonic(), node, repr(error)))

    def count(self, begin, first, node, last):
        now = time.monotonic()
        self.result.answers.append(now)
        if now < self.counted_from:
            return
        self.result.first_token.append(first - begin)
        self.result.nodes[node] += 1
        self.result.n_prompt += last.get("prompt_eval_count", 0)
        self.result.n_cached += last.get("prompt_cached_count", 0)
