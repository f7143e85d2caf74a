"""Tests answers to random schemas of generated models, whose logits are nearly random, and of real models if they exist.
Every answer that ends by itself must be JSON that its schema accepts. The judge is Python's package jsonschema."""
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from program import ARGS, ProgramTest, main

try:
    import jsonschema
except ImportError:
    print("skipped: no package jsonschema; Debian has python3-jsonschema")
    sys.exit(77)


TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(z|[+-]([01]\d|2[0-3]):[0-5]\d)", re.IGNORECASE | re.ASCII)
# The package checks "time" by draft 3, without a time zone. Its "date-time" needs another package.
FORMATS = jsonschema.FormatChecker(formats=("date", "ipv4", "uuid"))


@FORMATS.checks("time")
def is_time(text):
    return not isinstance(text, str) or TIME.fullmatch(text) is not None


@FORMATS.checks("date-time", raises=ValueError)
def is_date_time(text):
    if not isinstance(text, str):
        return True
    day, _, time_of_day = text.upper().partition("T")
    datetime.date.fromisoformat(day)
    return is_time(time_of_day)


SEED = int(os.environ.get("BILLOW_SCHEMA_SEED", "1"))
N_TINY = int(os.environ.get("BILLOW_SCHEMAS", "40"))
N_REAL = 6
WORDS = ["name", "age", "city", "kind", "the id", "tags", "x", "größe", "a\"b", "note"]


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("runner", timeout=600)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(600)
        self.sock.connect(self.path)


class Schemas:
    """Random schemas of the keywords that Billow supports."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def string(self):
        pick = self.random.randrange(5)
        if pick == 0:
            low = self.random.randrange(4)
            return {"type": "string", "minLength": low, "maxLength": low + self.random.randrange(1, 12)}
        if pick == 1:
            return {"type": "string", "pattern": self.random.choice(["^[a-z]{2,8}$", "^\\d{3}-\\d{4}$", "^(ab|cd)+$", "x"]), "maxLength": 30}
        if pick == 2:
            return {"type": "string", "format": self.random.choice(["date", "time", "date-time", "ipv4", "uuid"])}
        if pick == 3:
            return {"const": self.random.choice(WORDS)}
        return {"type": "string", "maxLength": 25}

    def number(self):
        low = self.random.randrange(-50, 50)
        pick = self.random.randrange(5)
        if pick == 0:
            return {"type": "integer", "minimum": low, "maximum": low + self.random.randrange(200)}
        if pick == 1:
            return {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": low + 7}
        if pick == 2:
            return {"type": "number", "minimum": low / 4, "maximum": low / 4 + 3.5}
        if pick == 3:
            return {"type": "integer", "multipleOf": self.random.choice([2, 3, 5]), "minimum": 0, "maximum": 1000}
        return {"type": self.random.choice(["integer", "number"])}

    def array(self, depth):
        schema = {"type": "array", "maxItems": self.random.randrange(1, 4)}
        if self.random.random() < 0.3:
            schema["prefixItems"] = [self.any(depth - 1) for _ in range(self.random.randrange(1, 3))]
            schema["maxItems"] = 4
        if self.random.random() < 0.5:
            schema["minItems"] = 1
        schema["items"] = self.any(depth - 1)
        return schema

    def object(self, depth):
        names = self.random.sample(WORDS, self.random.randrange(1, 5))
        schema = {"type": "object", "properties": {name: self.any(depth - 1) for name in names}}
        schema["required"] = [name for name in names if self.random.random() < 0.6]
        if self.random.random() < 0.3:
            schema["additionalProperties"] = False
        return schema

    def any(self, depth):
        pick = self.random.randrange(9 if depth > 0 else 5)
        if pick == 0:
            return {"type": self.random.choice(["boolean", "null"])}
        if pick == 1:
            return self.number()
        if pick == 2:
            return {"enum": self.random.sample(["red", "green", 3, None, True, 1.5, [1], {"a": 2}], 3)}
        if pick in (3, 4):
            return self.string()
        if pick == 5:
            return self.array(depth)
        if pick == 6:
            return {"anyOf": [self.any(depth - 1), self.any(depth - 1)]}
        return self.object(depth)

    def root(self):
        schema = self.object(3)
        if self.random.random() < 0.2:
            schema["$defs"] = {"node": {"type": "object", "properties": {"value": {"type": "integer"}, "next": {
                "anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["value", "next"], "additionalProperties": False}}
            schema["properties"]["chain"] = {"$ref": "#/$defs/node"}
        return schema


class Answers(ProgramTest):
    def start(self, model):
        self.socket = str(self.dir / f"{len(os.listdir(self.dir))}.sock")
        process = subprocess.Popen([ARGS.billow, "runner", "--model", str(model), "--socket", self.socket, "--parallel", "4"],
                                   stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        end = time.monotonic() + 300
        while not self.is_ready():
            self.assertIsNone(process.poll(), "the runner has ended")
            self.assertLess(time.monotonic(), end, "not ready")
            time.sleep(0.05)
        return process

    def is_ready(self):
        try:
            return self.ask("GET", "/health")[0] == 200
        except OSError:
            return False

    def ask(self, method, path, body=None):
        with contextlib.closing(UnixConnection(self.socket)) as connection:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()

    def complete(self, schema, seed, n_tokens, temperature):
        tokens = list(range(5, 25))
        head = {"n_prompt": len(tokens), "options": {"temperature": temperature, "seed": seed, "top_k": 0, "top_p": 1},
                "num_predict": n_tokens, "constraint": {"kind": "json_schema", "text": json.dumps(schema)}}
        status, text = self.ask("POST", "/completion", json.dumps(head).encode() + b"\n" + struct.pack(f"<{len(tokens)}i", *tokens))
        self.assertEqual(status, 200, f"{text}\n{json.dumps(schema)}")
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertNotIn("error", lines[-1], json.dumps(schema))
        return "".join(line if isinstance(line, str) else line.get("text", "") for line in lines), lines[-1]

    def judge(self, model, n_schemas, n_tokens, temperature):
        self.start(model)
        schemas = Schemas(SEED)
        work = [(schemas.root(), SEED * 1000 + i) for i in range(n_schemas)]
        done, lock = [], threading.Lock()

        def run_client():
            while True:
                with lock:
                    if not work:
                        return
                    schema, seed = work.pop()
                done.append((schema, *self.complete(schema, seed, n_tokens, temperature)))

        threads = [threading.Thread(target=run_client) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(done), n_schemas, "an answer failed: see above")
        n_ended = 0
        for schema, text, end in done:
            if end["done_reason"] != "stop":
                continue
            n_ended += 1
            value = json.loads(text)
            jsonschema.Draft202012Validator(schema, format_checker=FORMATS).validate(value)
        print(f"{pathlib.Path(model).name}: {n_ended} of {n_schemas} answers ended", file=sys.stderr)
        return n_ended

    def test_generated_models_follow_schemas(self):
        models = [next(iter(sorted(self.dir.glob(f"{kind}*.gguf")))) for kind in ("llama", "qwen2", "gemma3")]
        for model in models:
            with self.subTest(model=model.name):
                self.assertGreater(self.judge(model, N_TINY, 1500, 1.0), N_TINY // 2)

    def test_real_models_follow_schemas(self):
        folder = pathlib.Path(os.environ.get("BILLOW_TEST_MODELS", pathlib.Path.home() / ".cache/billow/models"))
        models = sorted(folder.glob("*.gguf"))
        if not models:
            self.skipTest(f"no models in {folder}")
        for model in models:
            with self.subTest(model=model.name):
                self.assertGreater(self.judge(model, N_REAL, 400, 0.8), 0)


if __name__ == "__main__":
    main()
