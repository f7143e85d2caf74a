"""Where `billow render` is meant to differ from Jinja2, each with its reason. render_test.py fails on any other
difference, and on an entry here that no longer happens."""

import html

# The sandbox of transformers refuses these templates' methods for whole families of requests that the models serve;
# they are compared with Jinja2 where lists may change.
CHANGES_LISTS = {"Kimi-K2-Instruct.jinja", "lists.jinja"}

# (template, conversations, reason): Python raises, Billow renders.
RENDERS = [
    (
        ["CohereForAI-c4ai-command-r-plus-tool_use.jinja", "NousResearch-Hermes-*.jinja"],
        ["tools, null"],
        "iterates over None, which is empty to minijinja",
    ),
    (
        ["llama-cpp-deepseek-r1.jinja"],
        ["tools", "tools, no system", "call", "call, content null", "call, arguments as text",
         "call, with content and reasoning"],
        "writes the generator of `map` as JSON, a list to minijinja",
    ),
]

# (template, conversations, reason, what makes Python's rendering equal to Billow's): both render.
DIFFERS = [
    (
        ["meetkai-functionary-medium-v3.1.jinja"],
        ["tools", "tools, no system", "call", "call, content null", "call, arguments as text",
         "call, with content and reasoning"],
        "`x | safe + y` escapes y for HTML in Jinja2, which is no use in a prompt",
        html.unescape,
    ),
]
