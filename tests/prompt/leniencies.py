"""The intended differences between `billow render` and Jinja2, each with its reason. render_test.py fails on any other
difference, and on an entry here without a difference."""

import html

# The sandbox of transformers refuses methods of these templates for whole families of requests that the models serve.
# So these templates are compared with a Jinja2 that allows changes of lists.
CHANGES_LISTS = {"Kimi-K2-Instruct.jinja", "lists.jinja"}

# (templates, conversations, reason): Python raises an exception, Billow renders.
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

# (templates, conversations, reason, function from Python's rendering to Billow's): both render.
DIFFERS = [
    (
        ["meetkai-functionary-medium-v3.1.jinja"],
        ["tools", "tools, no system", "call", "call, content null", "call, arguments as text",
         "call, with content and reasoning"],
        "`x | safe + y` escapes y for HTML in Jinja2, which is no use in a prompt",
        html.unescape,
    ),
]
