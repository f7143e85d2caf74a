"""Conversations that exercise the branches of chat templates. Each entry has the variables of a rendering."""

CLOCK = "2026-07-26T12:30:00"

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather of a city.\nToday's only.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Name of the city, as in \"Köln\""},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "integer", "minimum": 1, "nullable": True},
            },
            "required": ["city"],
        },
        "return": {"type": "object", "description": "The weather", "properties": {}},
    },
}

BOOKING = {
    "type": "function",
    "function": {
        "name": "book_table",
        "description": "Book a table <at a restaurant> & confirm.",
        "parameters": {
            "type": "object",
            "properties": {
                "guests": {"type": "array", "items": {"type": "string"}, "description": "Names"},
                "place": {
                    "type": "object",
                    "description": "Where",
                    "properties": {
                        "name": {"type": "string"},
                        "at": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                    },
                    "required": ["name"],
                },
                "price": {"type": "number", "default": 1.5},
                "vegan": {"type": ["boolean", "null"]},
            },
            "required": ["guests", "place"],
        },
    },
}

NO_ARGUMENTS = {
    "type": "function",
    "function": {
        "name": "now",
        "description": "The time",
        "parameters": {"type": "object", "properties": {}},
    },
}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(content, name="get_weather", id="call00001"):
    return {"role": "tool", "name": name, "tool_call_id": id, "content": content}


def conversation(*messages, generate=True, **variables):
    return {
        "messages": list(messages),
        "add_generation_prompt": generate,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "strftime_now": CLOCK,
        **variables,
    }


HELLO = user("Hello, how are you?")
FINE = assistant("I am fine. And you?")
JOKE = user("Tell me a joke.")
SYSTEM = system("You are a helpful assistant.")
ASK = user("What is the weather in Köln?")
ARGUMENTS = {"city": "Köln", "days": 2, "exact": 0.5, "late": None, "loud": True, "tags": ["a", "b"]}
ARGUMENTS_TEXT = '{"city": "K\\u00f6ln", "days": 2}'
PARTS = [{"type": "text", "text": "What is this? "}, {"type": "text", "text": "Say it."}]
PICTURE = {"type": "image", "image": "file.png"}
URL = {"type": "image_url", "image_url": {"url": "https://example.org/file.png"}}
ODD = "  <b>Tom & \"Jerry's\"</b> {{ not code }} {% nor this %}\r\n\tÄ 漢字 🙂 👩\u200d🚀 \u2028 \x7f\xa0 \\n  "

CONVERSATIONS = {
    "user": conversation(HELLO),
    "user, no generation prompt": conversation(HELLO, generate=False),
    "user, assistant, user": conversation(HELLO, FINE, JOKE),
    "system, user": conversation(SYSTEM, HELLO),
    "system, user, assistant, user": conversation(SYSTEM, HELLO, FINE, JOKE),
    "ends with assistant": conversation(SYSTEM, HELLO, FINE, generate=False),
    "ends with assistant, to go on": conversation(HELLO, FINE, continue_final_message=True),
    "empty system": conversation(system(""), HELLO),
    "system in the middle": conversation(HELLO, FINE, SYSTEM, JOKE),
    "developer": conversation({"role": "developer", "content": "Be brief."}, HELLO),
    "two users in turn": conversation(HELLO, JOKE),
    "no message": conversation(),
    "odd characters": conversation(system(ODD), user(ODD), assistant(ODD), user(ODD)),
    "thinking on": conversation(SYSTEM, HELLO, enable_thinking=True, thinking=True),
    "thinking off": conversation(SYSTEM, HELLO, enable_thinking=False, thinking=False),
    "thinking budget": conversation(SYSTEM, HELLO, thinking_budget=512, reasoning_effort="low"),
    "reasoning": conversation(
        HELLO, assistant("Fine.", reasoning_content="They greet me."), JOKE, generate=True
    ),
    "reasoning, last": conversation(
        HELLO, assistant("Fine.", reasoning_content="They greet me.\n\nSo do I."), generate=False
    ),
    "think tags": conversation(
        HELLO, assistant("<think>\nThey greet me.\n</think>\n\nFine."), JOKE, enable_thinking=True
    ),
    "parts": conversation(system(PARTS), user(PARTS), assistant(PARTS), user(PARTS)),
    "parts of the user": conversation(SYSTEM, user(PARTS)),
    "picture": conversation(user([PICTURE, *PARTS])),
    "picture by URL": conversation(SYSTEM, user([*PARTS, URL])),
    "tools": conversation(SYSTEM, ASK, tools=[WEATHER, BOOKING, NO_ARGUMENTS]),
    "tools, no system": conversation(ASK, tools=[WEATHER]),
    "tools, empty": conversation(SYSTEM, ASK, tools=[]),
    "tools, null": conversation(SYSTEM, ASK, tools=None, documents=None),
    "call": conversation(
        ASK, assistant("", tool_calls=[call("get_weather", ARGUMENTS)]), tool("Sunny, 25 °C"),
        tools=[WEATHER],
    ),
    "call, content null": conversation(
        ASK, assistant(None, tool_calls=[call("get_weather", ARGUMENTS)]), tool('{"sky": "blue"}'),
        tools=[WEATHER, BOOKING],
    ),
    "call, arguments as text": conversation(
        SYSTEM, ASK, assistant("", tool_calls=[call("get_weather", ARGUMENTS_TEXT)]),
        tool("Sunny"), assistant("It is sunny."), JOKE, tools=[WEATHER],
    ),
    "call, with content and reasoning": conversation(
        ASK,
        assistant(
            "I will look.", reasoning_content="A tool helps.",
            tool_calls=[call("get_weather", ARGUMENTS)],
        ),
        tool("Sunny"), tools=[WEATHER],
    ),
    "calls in parallel": conversation(
        SYSTEM, ASK,
        assistant(
            "",
            tool_calls=[
                call("get_weather", {"city": "Köln"}),
                call("book_table", {"guests": ["Ann", "Bob"], "place": {"name": "<Zum Dom>"}}, "call00002"),
                call("now", {}, "call00003"),
            ],
        ),
        tool("Sunny"), tool({"ok": True, "at": 19.5}, "book_table", "call00002"),
        tool("12:30", "now", "call00003"),
        tools=[WEATHER, BOOKING, NO_ARGUMENTS],
    ),
    "call, no tools given": conversation(
        ASK, assistant("", tool_calls=[call("get_weather", {"city": "Köln"})]), tool("Sunny"),
        assistant("It is sunny."), JOKE,
    ),
    "result in parts": conversation(
        ASK, assistant("", tool_calls=[call("get_weather", {})]),
        tool([{"type": "text", "text": "Sunny"}]), tools=[WEATHER],
    ),
    "documents": conversation(
        SYSTEM, HELLO,
        documents=[{"title": "One", "text": "First."}, {"title": "Two", "text": "Second <2>."}],
    ),
    "date and persona": conversation(
        HELLO, date_string="26 Jul 2026", date="2026-07-26", name="Ann", user_name="Bob",
        model_identity="You are Billow.", builtin_tools=["browser", "python"],
    ),
}
