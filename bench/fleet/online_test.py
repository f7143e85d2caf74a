"""Tests the parts of bench/fleet/online that measure nothing: the load, the stand-in's cache, and the simulation."""

import asyncio
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tests" / "deploy")]

import online_model  # noqa: E402
from online_load import Connection, Conversation, Load, quantile  # noqa: E402
from stand_in import BLOCK, BYTES_PER_TOKEN, PrefixCache, prompt_of  # noqa: E402

SIZE = BLOCK * BYTES_PER_TOKEN


class Cache(unittest.TestCase):
    def test_counts_whole_blocks_of_a_prefix(self):
        cache = PrefixCache(100 * BLOCK)
        self.assertEqual(cache.take("a" * 2 * SIZE + "end"), (2 * BLOCK, 0))
        self.assertEqual(cache.take("a" * 2 * SIZE + "other end, longer"), (2 * BLOCK + 4, 2 * BLOCK))
        self.assertEqual(cache.take("b" + "a" * 2 * SIZE), (2 * BLOCK, 0), "the same text at another place is another prefix")

    def test_a_block_after_a_different_one_is_not_cached(self):
        cache = PrefixCache(100 * BLOCK)
        cache.take("a" * SIZE + "b" * SIZE)
        self.assertEqual(cache.take("c" * SIZE + "b" * SIZE)[1], 0)

    def test_at_least_one_token_is_evaluated(self):
        cache = PrefixCache(100 * BLOCK)
        cache.take("a" * SIZE)
        self.assertEqual(cache.take("a" * SIZE), (BLOCK, BLOCK - 1))

    def test_evicts_the_least_recently_used_block(self):
        cache = PrefixCache(2 * BLOCK)
        for text in ("a", "b", "a", "c"):
            cache.take(text * SIZE)
        self.assertEqual([cache.take(text * SIZE)[1] for text in ("c", "a", "b")], [BLOCK - 1, BLOCK - 1, 0])


class Talks(unittest.TestCase):
    def prompt(self, talk):
        return prompt_of({"model": "m", "messages": talk.messages})

    def test_each_turn_begins_with_the_turn_before(self):
        talk = Conversation(3, 1, 400, 100, 50, 3)
        prompts = [self.prompt(talk)]
        while talk.go_on("an answer"):
            prompts.append(self.prompt(talk))
        self.assertEqual(len(prompts), 3)
        for before, after in zip(prompts, prompts[1:]):
            self.assertTrue(after.startswith(before))

    def test_the_same_number_and_seed_repeat_a_conversation(self):
        shape = (1, 400, 100, 50, 3)
        self.assertEqual(Conversation(3, *shape).messages, Conversation(3, *shape).messages)
        self.assertNotEqual(Conversation(3, *shape).messages[1], Conversation(4, *shape).messages[1])
        self.assertEqual(Conversation(3, *shape).messages[0], Conversation(7, *shape).messages[0], "system prompts are shared")

    def test_quantiles(self):
        self.assertEqual([quantile([3, 1, 2], q) for q in (0, 0.5, 0.99)], [1, 2, 3])


class Model(unittest.TestCase):
    SHAPE = {"n_clients": 16, "slots": 8, "decode_seconds": 1.6, "prefill": 4000, "seconds": 60.0}

    def test_one_host_is_limited_by_its_slots(self):
        one = online_model.calculate(1, "pinned", **self.SHAPE)
        self.assertAlmostEqual(one["answers_per_second"], 8 / 1.6, delta=0.3)
        self.assertEqual(one, online_model.calculate(1, 200, **self.SHAPE), "with one host, nothing can be chosen")

    def test_the_hash_keeps_prefixes_and_a_tighter_bound_spreads_more(self):
        rows = {pick: online_model.calculate(4, pick, **self.SHAPE) for pick in ("pinned", "random", 0, 200, 125)}
        self.assertLess(rows["random"]["cached_share"], rows[200]["cached_share"])
        self.assertAlmostEqual(rows[200]["cached_share"], rows["pinned"]["cached_share"], delta=0.02)
        self.assertLess(rows[125]["first_token_p99"], rows[0]["first_token_p99"])


class Failures(unittest.TestCase):
    """Tests which answers the load counts as broken streams, and which as other failures."""

    def run_with(self, answer):
        async def serve(reader, writer):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(answer)
            await writer.drain()
            writer.close()

        async def both():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            async with server:
                load = Load(None, 1, 4)
                await load.turn(Connection(*server.sockets[0].getsockname()), Conversation(0, 1, 10, 10, 10, 1))
            return load.result

        result = asyncio.run(both())
        return len(result.answers), len(result.broken), len(result.failed)

    def piece(self, text):
        return f"{len(text):x}\r\n{text}\r\n".encode()

    def test_whole_and_broken_answers(self):
        head = b"HTTP/1.1 200 OK\r\nX-Billow-Node: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        last = self.piece('{"done": true, "message": {"content": ""}}\n') + b"0\r\n\r\n"
        self.assertEqual(self.run_with(head + self.piece('{"message": {"content": "w"}}\n') + last), (1, 0, 0))
        self.assertEqual(self.run_with(head + self.piece('{"message": {"content": "w"}}\n')), (0, 1, 0), "the connection ends")
        self.assertEqual(self.run_with(head + self.piece('{"message": {"content": "w"}}\n') + b"0\r\n\r\n"), (0, 1, 0), "no last line")
        self.assertEqual(self.run_with(head), (0, 0, 1), "nothing was sent, so another host should have answered")

    def test_an_error_status(self):
        self.assertEqual(self.run_with(b"HTTP/1.1 503 X\r\nContent-Length: 2\r\n\r\n{}"), (0, 0, 1))
        self.assertEqual(self.run_with(b""), (0, 0, 1))


if __name__ == "__main__":
    unittest.main()
