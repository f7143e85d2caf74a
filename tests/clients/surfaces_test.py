"""Tests random requests on every API for answers (a surface), to a model whose answers are known.

Each surface has its own format for thinking, text and tool calls, streamed and whole. All of them must return the text of the model's
script: one request after another, and in parallel with cancelled requests. BILLOW_SURFACES_SEED is the seed of the requests,
BILLOW_SURFACES is their number.
"""

import concurrent.futures
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import random
import re
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "server"))

from scripted_model import call_text, write_scripted_model  # noqa: E402
from server import Server  # noqa: E402

SEED = int(os.environ.get("BILLOW_SURFACES_SEED", "1"))
N_REQUESTS = int(os.environ.get("BILLOW_SURFACES", "150"))
TOOLS = {
    "weather": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "ping": {},
    "note": {"text": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}, "deep": {"type": "object"}},
}


@dataclasses.dataclass(frozen=True)
class Script:
    text: str = ""
    thinking: str = ""
    calls: tuple = ()  # pairs (name, arguments as JSON)

    @property
    def written(self):
        parts = [f"<think>\n{self.thinking}\n</think>\n\n"] if self.thinking else []
        parts += [self.text] if self.text else []
        parts += ["\n"] if self.text and self.calls else []
        return "".join(parts) + "\n".join(call_text(name, **json.loads(arguments)) for name, arguments in self.calls)


def call(name, **arguments):
    return name, json.dumps(arguments, sort_keys=True)


SCRIPTS = [
    Script("The harbour of Genoa is older than its lighthouse, STOP-HERE, they say."),
    Script("Über naïve Cafés – 東京 🌊🌊 and \"quotes\" \\ back\nslashes\n\n```c\nint main() {}\n```\n"),
    Script("See <b>bold</b>, a < b && c > d, {\"name\": \"ping\"} and [1, 2, 3]."),
    Script("A sum of 12 and 30 makes 42.", thinking="First 12, then 30.\nTogether: 42."),
    Script(calls=(call("weather", city="Rome", days=3),)),
    Script(calls=(call("ping"),)),
    Script("I look twice.", calls=(call("weather", city="Oslo", days=1), call("weather", city="Bergen", days=2))),
    Script(thinking="The user wants two notes.", calls=(call("note", text="a \"b\" \\ c\nd", tags=["x", "ÿ"], deep={"k": [1, None, {"z": True}]}),
                                                        call("ping"))),
    Script("So I ask about Turin.", thinking="Turin is not Milan.", calls=(call("weather", city="Turin", days=7),)),
]
CALLING = [i for i, script in enumerate(SCRIPTS) if script.calls]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("surfaces")
    write_scripted_model(folder / "player.gguf", [(f"'case {i}.' in last", script.written) for i, script in enumerate(SCRIPTS)], thinks=True)
    server = Server(folder)
    server.add_model("player", folder / "player.gguf")
    yield server
    assert server.stop() == 0, server.log.read_text()


@dataclasses.dataclass
class Content:
    """The content of one choice of an answer."""

    text: str = ""
    thinking: str = ""
    calls: list = dataclasses.field(default_factory=list)  # lists [name, arguments]
    finish: str = ""

    def seen(self):
        return self.text.strip(), self.thinking.strip(), [(name, json.dumps(json.loads(text or "{}"), sort_keys=True)) for name, text in self.calls]


class Cut(Exception):
    """The test has disconnected."""


def events_of(answer, cancel_after):
    """Yields the data of each event or line of a stream."""
    for n, line in enumerate(answer):
        if cancel_after is not None and n >= cancel_after:
            raise Cut
        line = line.strip()
        if not line.startswith(b"data: ") and not line.startswith(b"{"):
            continue
        line = line.removeprefix(b"data: ")
        if line != b"[DONE]":
            yield json.loads(line)


class Ollama:
    path = "/api/chat"

    def tools(self, names):
        return [{"type": "function", "function": {"name": name, "description": "A tool.", "parameters": {
            "type": "object", "properties": TOOLS[name]}}} for name in names]

    def history(self, turns):
        messages = []
        for question, script in turns:
            messages.append({"role": "user", "content": question})
            message = {"role": "assistant", "content": script.text}
            if script.thinking:
                message["thinking"] = script.thinking
            if script.calls:
                message["tool_calls"] = [{"function": {"name": name, "arguments": json.loads(text)}} for name, text in script.calls]
            messages.append(message)
            messages += [{"role": "tool", "tool_name": name, "content": "done"} for name, _ in script.calls]
        return messages

    def body(self, case):
        body = {"messages": [*self.history(case.turns), {"role": "user", "content": case.question}], "stream": case.stream, "think": case.think,
                "options": {"temperature": 0, **({"stop": [case.stop]} if case.stop else {}),
                            **({"num_predict": case.limit} if case.limit else {})}}
        return body | ({"tools": self.tools(case.tools)} if case.tools else {})

    def whole(self, answer):
        content = Content()
        self.add(content, answer)
        return [content]

    def add(self, content, part):
        message = part["message"]
        content.text += message["content"]
        content.thinking += message.get("thinking", "")
        content.calls += [[one["function"]["name"], json.dumps(one["function"]["arguments"])] for one in message.get("tool_calls", [])]
        if part["done"]:
            content.finish = part["done_reason"]

    def stream(self, events, case):
        content = Content()
        for part in events:
            self.add(content, part)
        return [content]


class Chat(Ollama):
    path = "/v1/chat/completions"

    def history(self, turns):
        messages = []
        for n, (question, script) in enumerate(turns):
            calls = [{"id": f"call_{n}_{k}", "type": "function", "function": {"name": name, "arguments": text}}
                     for k, (name, text) in enumerate(script.calls)]
            messages += [{"role": "user", "content": [{"type": "text", "text": question}]},
                         {"role": "assistant", "content": script.text or None, **({"tool_calls": calls} if calls else {})}]
            messages += [{"role": "tool", "tool_call_id": one["id"], "content": "done"} for one in calls]
        return messages

    def body(self, case):
        body = {"messages": [*self.history(case.turns), {"role": "user", "content": case.question}], "temperature": 0, "n": case.n, "stream": case.stream,
                "reasoning_effort": "medium" if case.think else "none"}
        body |= {"tools": self.tools(case.tools), "tool_choice": case.choice} if case.tools else {}
        return body | ({"stop": case.stop} if case.stop else {}) | ({"max_tokens": case.limit} if case.limit else {})

    def message(self, content, message):
        content.text += message.get("content") or ""
        content.thinking += message.get("reasoning") or message.get("reasoning_content") or ""

    def whole(self, answer):
        choices = []
        for choice in sorted(answer["choices"], key=lambda choice: choice["index"]):
            content = Content(finish=choice["finish_reason"])
            self.message(content, choice["message"])
            content.calls = [[one["function"]["name"], one["function"]["arguments"]] for one in choice["message"].get("tool_calls") or []]
            choices.append(content)
        return choices

    def stream(self, events, case):
        choices = [Content() for _ in range(case.n)]
        for part in events:
            for choice in part["choices"]:
                content = choices[choice["index"]]
                self.message(content, choice["delta"])
                for one in choice["delta"].get("tool_calls") or []:
                    if one["index"] == len(content.calls):
                        content.calls.append([one["function"]["name"], ""])
                    content.calls[one["index"]][1] += one["function"].get("arguments") or ""
                content.finish = choice["finish_reason"] or content.finish
        return choices


class Responses:
    path = "/v1/responses"

    def body(self, case):
        items = []
        for n, (question, script) in enumerate(case.turns):
            items.append({"role": "user", "content": question})
            if script.text:
                items.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": script.text, "annotations": []}]})
            for k, (name, text) in enumerate(script.calls):
                items += [{"type": "function_call", "call_id": f"call_{n}_{k}", "name": name, "arguments": text},
                          {"type": "function_call_output", "call_id": f"call_{n}_{k}", "output": "done"}]
        body = {"input": [*items, {"role": "user", "content": case.question}], "temperature": 0, "stream": case.stream, "store": case.store,
                "reasoning": {"effort": "medium" if case.think else "none"}}
        if case.tools:
            body |= {"tool_choice": case.choice, "tools": [{"type": "function", "name": name, "parameters": {
                "type": "object", "properties": TOOLS[name]}, "strict": False} for name in case.tools]}
        return body | ({"max_output_tokens": case.limit} if case.limit else {})

    def whole(self, answer):
        content = Content(finish=answer["status"])
        for item in answer["output"]:
            if item["type"] == "message":
                content.text += "".join(part["text"] for part in item["content"])
            elif item["type"] == "reasoning":
                content.thinking += "".join(part["text"] for part in item.get("content") or item["summary"])
            else:
                content.calls.append([item["name"], item["arguments"]])
        return [content]

    def stream(self, events, case):
        content, last = Content(), None
        for n, event in enumerate(events):
            assert event["sequence_number"] == n
            kind = event["type"]
            if kind == "response.output_text.delta":
                content.text += event["delta"]
            elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
                content.thinking += event["delta"]
            elif kind == "response.output_item.added" and event["item"]["type"] == "function_call":
                content.calls.append([event["item"]["name"], ""])
            elif kind == "response.function_call_arguments.delta":
                content.calls[-1][1] += event["delta"]
            last = event
        whole = self.whole(last["response"])[0]
        assert whole.seen() == content.seen(), "the last event repeats the others"
        return [whole]


class Messages:
    path = "/v1/messages"

    def body(self, case):
        messages = []
        for n, (question, script) in enumerate(case.turns):
            blocks = [{"type": "thinking", "thinking": script.thinking, "signature": "s"}] if script.thinking and case.think else []
            blocks += [{"type": "text", "text": script.text}] if script.text else []
            blocks += [{"type": "tool_use", "id": f"toolu_{n}_{k}", "name": name, "input": json.loads(text)}
                       for k, (name, text) in enumerate(script.calls)]
            results = [{"type": "tool_result", "tool_use_id": f"toolu_{n}_{k}", "content": "done"} for k in range(len(script.calls))]
            messages += [{"role": "user", "content": question}, {"role": "assistant", "content": blocks}]
            messages += [{"role": "user", "content": results}] if results else []
        body = {"max_tokens": case.limit or 1000, "messages": [*messages, {"role": "user", "content": case.question}], "temperature": 0, "stream": case.stream}
        if case.think:
            body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
            body["max_tokens"] = case.limit or 2000
        if case.tools:
            body |= {"tool_choice": {"type": case.choice}, "tools": [
                {"name": name, "input_schema": {"type": "object", "properties": TOOLS[name]}} for name in case.tools]}
        return body | ({"stop_sequences": [case.stop]} if case.stop else {})

    def whole(self, answer):
        content = Content(finish=answer["stop_reason"])
        for block in answer["content"]:
            content.text += block.get("text", "")
            content.thinking += block.get("thinking", "")
            if block["type"] == "tool_use":
                content.calls.append([block["name"], json.dumps(block["input"])])
        return [content]

    def stream(self, events, case):
        content = Content()
        for event in events:
            if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
                content.calls.append([event["content_block"]["name"], ""])
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                content.text += delta.get("text", "")
                content.thinking += delta.get("thinking", "")
                if delta["type"] == "input_json_delta":
                    content.calls[-1][1] += delta["partial_json"]
            elif event["type"] == "message_delta":
                content.finish = event["delta"]["stop_reason"]
        return [content]


SURFACES = (Ollama(), Chat(), Responses(), Messages())
FINISHES = {  # by path: finish of an answer that ends by itself, with calls, and at its limit
    "/api/chat": ("stop", "stop", "length"),
    "/v1/chat/completions": ("stop", "tool_calls", "length"),
    "/v1/responses": ("completed", "completed", "incomplete"),
    "/v1/messages": ("end_turn", "tool_use", "max_tokens"),
}


@dataclasses.dataclass
class Case:
    surface: object
    script: int
    turns: list
    tools: list
    choice: str
    stream: bool
    think: bool
    n: int
    store: bool
    stop: str
    limit: int

    @property
    def question(self):
        return f"Please do case {self.script}."

    def expected(self):
        """Returns (text, thinking, calls), and the finish reason."""
        script = SCRIPTS[self.script]
        ended, called, at_limit = FINISHES[self.surface.path]
        if self.limit:
            return None, at_limit
        if self.stop:
            before = script.text[:script.text.index(self.stop)]
            return (before.strip(), "", []), "stop_sequence" if self.surface.path == "/v1/messages" else ended
        # Without tools a call is text.
        written = script.written.partition("</think>\n\n")[2] if script.thinking else script.written
        if script.calls and (not self.tools or self.choice == "none"):
            return (written.strip(), script.thinking if self.think else "", []), ended
        return (script.text.strip(), script.thinking if self.think else "", list(script.calls)), called if script.calls else ended


def random_case(chance):
    script = chance.randrange(len(SCRIPTS))
    surface = chance.choice(SURFACES)
    plain = not SCRIPTS[script].calls and not SCRIPTS[script].thinking
    tools = chance.sample(list(TOOLS), 3) if SCRIPTS[script].calls or chance.random() < 0.5 else []
    turns = [(f"Earlier I asked {k}", SCRIPTS[chance.choice(CALLING) if tools else 0]) for k in range(chance.randrange(3))]
    may_choose = tools and surface.path != "/api/chat"
    may_stop = script == 0 and surface.path != "/v1/responses"
    return Case(surface, script, turns, tools, chance.choice(["auto", "auto", "none"]) if may_choose else "auto", stream=chance.random() < 0.5,
                think=chance.random() < 0.7, n=chance.choice([1, 1, 2, 3]) if surface.path == "/v1/chat/completions" else 1,
                store=chance.random() < 0.5, stop="STOP-HERE" if may_stop and chance.random() < 0.4 else "",
                limit=2 if plain and chance.random() < 0.15 else 0)


def ask(server, case, cancel_after=None):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)) as connection:
        connection.request("POST", case.surface.path, json.dumps({"model": "player", **case.surface.body(case)}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise AssertionError(f"{answer.status} {answer.read().decode()} for {case}")
        if case.stream:
            return case.surface.stream(events_of(answer, cancel_after), case)
        return case.surface.whole(json.loads(answer.read()))


def check(case, choices):
    expected, finish = case.expected()
    assert len(choices) == case.n
    for content in choices:
        if expected is None:
            assert content.text and SCRIPTS[case.script].text.startswith(content.text.rstrip("\N{REPLACEMENT CHARACTER}")), case
        else:
            assert content.seen() == expected, case
        assert content.finish == finish, case


def answered(server):
    """Returns the number of requests in the metrics, by route."""
    text = server.request("GET", "/metrics")[2].decode()
    counts = dict.fromkeys(FINISHES, 0)
    for labels, value in re.findall(r"^billow_requests_total\{(.*)\} (\d+)$", text, re.MULTILINE):
        route = re.search(r'route="([^"]*)"', labels)[1]
        if route in counts:
            counts[route] += int(value)
    return counts


def test_every_surface_returns_the_models_text(server):
    chance = random.Random(SEED)
    cases = [random_case(chance) for _ in range(N_REQUESTS)]
    before = answered(server)
    for case in cases:
        check(case, ask(server, case))
    wanted = {path: n + sum(case.surface.path == path for case in cases) for path, n in before.items()}
    deadline = time.monotonic() + 120  # the server counts an answer after its last byte
    while answered(server) != wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    assert answered(server) == wanted


def test_surfaces_return_the_same_among_cancelled_requests(server):
    chance = random.Random(SEED + 1)
    cases = [random_case(chance) for _ in range(N_REQUESTS)]

    def one(case, leaves_after):
        if leaves_after is None:
            check(case, ask(server, case))
            return
        with contextlib.suppress(Cut):
            ask(server, dataclasses.replace(case, stream=True), leaves_after)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(one, case, chance.randrange(6) if chance.random() < 0.25 else None) for case in cases]
        for done in asked:
            done.result()


def test_stored_response_continues(server):
    def respond(**fields):
        return server.json("POST", "/v1/responses", {"model": "player", "temperature": 0, **fields})

    chance = random.Random(SEED + 2)
    declared = [{"type": "function", "name": name, "parameters": {"type": "object", "properties": TOOLS[name]}, "strict": False} for name in TOOLS]
    previous = None
    for _ in range(12):
        script = SCRIPTS[number := chance.choice(CALLING)]
        asked = respond(input=f"Please do case {number}.", tools=declared, previous_response_id=previous)
        calls = [item for item in asked["output"] if item["type"] == "function_call"]
        assert [(item["name"], json.dumps(json.loads(item["arguments"]), sort_keys=True)) for item in calls] == list(script.calls)
        results = [{"type": "function_call_output", "call_id": item["call_id"], "output": "done"} for item in calls]
        ended = respond(input=[*results, {"role": "user", "content": "And then case 0."}], tools=declared, previous_response_id=asked["id"])
        assert Responses().whole(ended)[0].text == SCRIPTS[0].text
        assert ended["usage"]["input_tokens"] > asked["usage"]["input_tokens"]
        previous = ended["id"]
