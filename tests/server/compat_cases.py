"""Rows of the specification of Ollama's API for compat_test.py: requests and expected answers. Each name begins with its section of
the specification.
"""

import hashlib
import json

GET, HEAD, POST, DELETE = "GET", "HEAD", "POST", "DELETE"
JSON_TYPE = "application/json; charset=utf-8"
NO_DIGEST = "sha256:" + "0" * 64
LEVELS = '"high", "medium", "low", "max", true, or false'
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {
    "type": "object", "required": ["a"], "properties": {"a": {"type": "number"}}}}}
USER = [{"role": "user", "content": "Hi"}]
COUNTING = {"prompt": "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,", "raw": True}  # the answer is endless
EVERYTHING = ("{{ if .IsThinkSet }}{{ if .Think }}+{{ else }}-{{ end }}{{ end }}{{ range .Tools }}{{ . }}{{ end }}"
              "{{ range .Messages }}[{{ .Role }}]{{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ .Content }}{{ end }}"
              "{{ if .Suffix }}({{ .Prompt }}|{{ .Suffix }}){{ end }}")


def wrong_type(kind, struct_name, field, go_type):
    return f"json: cannot unmarshal {kind} into Go struct field {struct_name}.{field} of type {go_type}"


def error_body(text):
    """Returns JSON as Go writes it: compact and HTML-escaped."""
    body = json.dumps({"error": text}, ensure_ascii=False, separators=(",", ":"))
    for c in "<>&":
        body = body.replace(c, f"\\u{ord(c):04x}")
    return body.encode()


# Name, method, path, body (bytes are sent unchanged), status and error, for a server with the model "small" in its store.
NEED_A_BODY = ((POST, "/api/generate"), (POST, "/api/chat"), (POST, "/api/embed"), (POST, "/api/embeddings"), (POST, "/api/show"),
               (POST, "/api/copy"), (DELETE, "/api/delete"), (POST, "/api/create"), (POST, "/api/pull"), (POST, "/api/push"))
REFUSED = [
    *(("1.3 empty body", method, path, b"", 400, "missing request body") for method, path in NEED_A_BODY),
    *(("1.3 malformed JSON", method, path, b'{"model":x', 400, "invalid character 'x' looking for beginning of value")
      for method, path in NEED_A_BODY),
    *(("1.3 JSON that ends too early", method, path, b'{"model":"m"', 400, "unexpected EOF") for method, path in NEED_A_BODY),
    *(("1.3 wrong JSON type", method, path, {field: 5}, 400, wrong_type("number", name, field, "string"))
      for method, path, field, name in (
          (POST, "/api/generate", "model", "GenerateRequest"), (POST, "/api/chat", "model", "ChatRequest"),
          (POST, "/api/embed", "model", "EmbedRequest"), (POST, "/api/embeddings", "prompt", "EmbeddingRequest"),
          (POST, "/api/show", "name", "ShowRequest"), (POST, "/api/copy", "source", "CopyRequest"),
          (DELETE, "/api/delete", "model", "DeleteRequest"), (POST, "/api/create", "from", "CreateRequest"),
          (POST, "/api/pull", "model", "PullRequest"), (POST, "/api/push", "model", "PushRequest"))),
    *(("1.3 wrong JSON type", POST, "/api/generate", {field: value}, 400, wrong_type(kind, "GenerateRequest", field, go_type))
      for field, value, kind, go_type in (
          ("top_logprobs", "x", "string", "int"), ("top_logprobs", 1.5, "number 1.5", "int"), ("stream", "yes", "string", "bool"),
          ("raw", 1, "number", "bool"), ("options", "x", "string", "map[string]interface {}"), ("context", "x", "string", "[]int"),
          ("context", ["x"], "string", "int"), ("truncate", [], "array", "bool"), ("shift", {}, "object", "bool"),
          ("suffix", True, "bool", "string"), ("template", [], "array", "string"))),
    ("1.3 wrong JSON type", POST, "/api/chat", {"model": "m", "messages": [{"content": 5}]}, 400,
     wrong_type("number", "ChatRequest", "messages.content", "string")),
    ("1.3 not an object", POST, "/api/generate", b"[1]", 400, "json: cannot unmarshal array into Go value of type api.GenerateRequest"),
    ("1.3 bad base64 in images", POST, "/api/generate", {"model": "m", "prompt": "x", "images": ["YQ=!"]}, 400,
     "illegal base64 data at input byte 3"),
    ("1.3 bad base64 in images", POST, "/api/chat", {"model": "m", "messages": [{"role": "user", "images": ["*"]}]}, 400,
     "illegal base64 data at input byte 0"),
    ("1.3 generate: no model", POST, "/api/generate", {"prompt": "x"}, 404, "model '' not found"),
    ("1.3 generate: empty model", POST, "/api/generate", {"model": "", "prompt": "x"}, 404, "model '' not found"),
    *(("1.3 chat: no model", POST, "/api/chat", body, 400, "model is required") for body in ({"messages": USER}, {"model": ""}, {"model": None})),
    ("1.3 embed: no model", POST, "/api/embed", {"input": "x"}, 404, "model '' not found"),
    ("1.3 embeddings: no model", POST, "/api/embeddings", {"prompt": "x"}, 400, "model is required"),
    *(("1.3 invalid model name", POST, path, {"model": name, **body}, 400, "invalid model name")
      for path, body in (("/api/generate", {"prompt": "x"}), ("/api/chat", {"messages": USER}), ("/api/embed", {"input": "x"}),
                         ("/api/embeddings", {"prompt": "x"}))
      for name in ("a b", "m:", "../m", "-m", " a/b/c/d/e ")),
    ("1.3 generate: unknown model", POST, "/api/generate", {"model": "None:1B", "prompt": "x"}, 404, "model 'None:1B' not found"),
    ("1.3 generate: unknown model, to be loaded", POST, "/api/generate", {"model": "none"}, 404, "model 'none' not found"),
    ("2.2 unload of an unknown model", POST, "/api/generate", {"model": "none", "keep_alive": 0}, 404, "model 'none' not found"),
    ("1.3 chat: unknown model", POST, "/api/chat", {"model": "none", "messages": USER}, 404, "model 'none' not found"),
    ("1.3 chat: an unknown model in a stream", POST, "/api/chat", {"model": "none", "messages": USER, "stream": True}, 404,
     "model 'none' not found"),
    ("1.3 embed: unknown model", POST, "/api/embed", {"model": "none", "input": "x"}, 404, 'model "none" not found, try pulling it first'),
    ("1.3 embeddings: unknown model", POST, "/api/embeddings", {"model": "none", "prompt": "x"}, 404,
     'model "none" not found, try pulling it first'),
    *(("1.3 both :local and :cloud", method, path, {"model": "m:local:cloud", **body}, 400,
       'use either :local or :cloud, not both: "m:local:cloud"')
      for method, path, body in ((POST, "/api/generate", {"prompt": "x"}), (POST, "/api/chat", {"messages": USER}),
                                 (POST, "/api/embed", {"input": "x"}), (POST, "/api/show", {}), (DELETE, "/api/delete", {}))),
    *(("1.3 top_logprobs out of range", POST, path, {"model": "m", "top_logprobs": n}, 400, "top_logprobs must be between 0 and 20")
      for path in ("/api/generate", "/api/chat") for n in (-1, 21)),
    *(("1.3 raw with unsupported fields", POST, "/api/generate", {"model": "m", "prompt": "x", "raw": True, **body}, 400,
       "raw mode does not support template, system, or context")
      for body in ({"system": "s"}, {"template": "t"}, {"context": [1]})),
    *(("1.3 invalid think string", POST, path, {"model": "m", "prompt": "x", "messages": USER, "think": "very"}, 400,
       f'invalid think value: "very" (must be {LEVELS})') for path in ("/api/generate", "/api/chat")),
    *(("1.3 think of another type", POST, path, {"model": "m", "prompt": "x", "messages": USER, "think": think}, 400,
       f"think must be a boolean or string ({LEVELS})") for path in ("/api/generate", "/api/chat") for think in (1, [], {})),
    *(("1.3 keep_alive of a wrong type, checked before the model", POST, path,
       {"model": "none", "prompt": "x", "messages": USER, "input": "x", "keep_alive": keep_alive}, 400, text)
      for path in ("/api/generate", "/api/chat", "/api/embed", "/api/embeddings")
      for keep_alive, text in ((True, "Unsupported type: 'bool'"), ([], "Unsupported type: '[]interface {}'"),
                               ({}, "Unsupported type: 'map[string]interface {}'"))),
    *(("1.3 keep_alive is not a duration", POST, path,
       {"model": "none", "prompt": "x", "messages": USER, "input": "x", "keep_alive": keep_alive}, 400, text)
      for path in ("/api/generate", "/api/chat", "/api/embed", "/api/embeddings")
      for keep_alive, text in (("abc", 'time: invalid duration "abc"'), ("10", 'time: missing unit in duration "10"'),
                               ("5x", 'time: unknown unit "x" in duration "5x"'), ("", 'time: invalid duration ""'))),
    *(("1.3 cloud model", POST, path, {"model": name, "prompt": "x", "messages": USER, "input": "x"}, 403,
       "ollama cloud is disabled: remote model is unavailable")
      for path in ("/api/generate", "/api/chat", "/api/embed") for name in ("none:cloud", "none:1b-cloud", "none:CLOUD", "stub")),
    *(("1.3 show of a cloud model", POST, "/api/show", {"model": name}, 403,
       "ollama cloud is disabled: remote model details are unavailable") for name in ("none:cloud", "stub")),
    ("1.3 web search", POST, "/api/experimental/web_search", {"query": "x"}, 403, "ollama cloud is disabled: web search is unavailable"),
    ("1.3 web fetch", POST, "/api/experimental/web_fetch", {"url": "x"}, 403, "ollama cloud is disabled: web fetch is unavailable"),
    *(("1.3 image generation", POST, path, {"model": "painter", "prompt": "x", "messages": USER}, 400,
       "image generation models are not currently supported") for path in ("/api/generate", "/api/chat")),
    *(("2.7 input of a wrong type", POST, "/api/embed", {"model": "m", "input": value}, 400, "invalid input type")
      for value in (5, True, {}, ["a", 5], [["a"]], [None, {}])),
    ("2.3 arguments of a call are an object", POST, "/api/chat",
     {"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]}, 400,
     wrong_type("string", "ChatRequest", "messages.tool_calls.function.arguments", "map[string]interface {}")),
    ("3.3 no model", POST, "/api/show", {}, 400, "model is required"),
    ("3.3 invalid name", POST, "/api/show", {"model": "a b"}, 400, "invalid model name"),
    ("3.3 unknown model: the short name with its tag", POST, "/api/show", {"model": "registry.ollama.ai/library/none"}, 404,
     "model 'none:latest' not found"),
    ("3.3 options of a wrong type", POST, "/api/show", {"model": "small", "options": {"top_k": "x"}}, 400,
     'option "top_k" must be of type integer'),
    ("3.4 invalid source", POST, "/api/copy", {"source": "a b", "destination": "c"}, 400, 'source "a b" is invalid'),
    ("3.4 invalid destination", POST, "/api/copy", {"source": "small", "destination": "c:"}, 400, 'destination "c:" is invalid'),
    ("3.4 no destination", POST, "/api/copy", {"source": "small"}, 400, 'destination "" is invalid'),
    ("3.4 missing source", POST, "/api/copy", {"source": "none", "destination": "c"}, 404, 'model "none" not found'),
    ("3.5 no name", DELETE, "/api/delete", {}, 400, "model is required"),
    ("3.5 invalid name", DELETE, "/api/delete", {"model": "a b"}, 400, 'name "a b" is invalid'),
    ("3.5 unknown model", DELETE, "/api/delete", {"name": "None"}, 404, "model 'None' not found"),
    *(("3.6 bad digest", POST, "/api/blobs/" + digest, b"x", 400, "invalid digest format")
      for digest in ("sha256:xyz", "sha256:" + "0" * 63, "sha512:" + "0" * 64, "none")),
    ("3.6 wrong content", POST, "/api/blobs/" + NO_DIGEST, b"x", 400,
     f'digest mismatch, expected "{NO_DIGEST}", got "sha256:{hashlib.sha256(b"x").hexdigest()}"'),
    ("3.7 neither from nor files", POST, "/api/create", {"model": "c"}, 400, "neither 'from' or 'files' was specified"),
    ("3.7 invalid name", POST, "/api/create", {"model": "a b", "from": "small"}, 400, "invalid model name"),
    ("3.7 unknown base", POST, "/api/create", {"model": "c", "from": "none", "stream": False}, 404,
     "model 'none' not found: pull model manifest: file does not exist"),
    ("3.7 invalid digest", POST, "/api/create", {"model": "c", "files": {"m.gguf": "x"}}, 400, "invalid digest format"),
    ("3.7 path outside the folder", POST, "/api/create", {"model": "c", "files": {"../m.gguf": NO_DIGEST}}, 400,
     "file path must be relative"),
    ("3.7 unknown type", POST, "/api/create", {"model": "c", "from": "small", "quantize": "Q9"}, 400,
     "unsupported quantization type Q9 - supported types are F32, F16, Q4_K_S, Q4_K_M, Q8_0"),
    ("3.8 no such model at the registry", POST, "/api/pull", {"model": "none", "stream": False}, 500,
     "pull model manifest: file does not exist"),
    ("3.8 http without insecure", POST, "/api/pull", {"model": "http://127.0.0.1:9/a/b", "stream": False}, 500, "insecure protocol http"),
    ("3.9 no such model in the store", POST, "/api/push", {"model": "none", "stream": False}, 500, "model 'none:latest' not found"),
    *(("3.8, 3.9 invalid name", POST, path, {"model": "a b"}, 400, "invalid model name") for path in ("/api/pull", "/api/push")),
    ("1.2 no account", POST, "/api/me", b"", 401, "unauthorized"),
    ("1.2 no account", POST, "/api/signout", b"", 401, "you are not currently signed in"),
    ("1.2 no account", DELETE, "/api/user/keys/a", b"", 401, "you are not currently signed in"),
]

# The same for a server with the real model "m", and with "all", whose template supports every feature.
INTEGERS = ("num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "draft_num_predict", "num_keep", "seed", "num_predict", "top_k",
            "repeat_last_n")
FLOATS = ("top_p", "min_p", "typical_p", "temperature", "repeat_penalty", "presence_penalty", "frequency_penalty")
REFUSED_BY_MODEL = [
    *(("2.1 option of a wrong type", POST, path, {"model": "m", "prompt": "x", "messages": USER, "input": "x", "options": {name: value}},
       500, f'option "{name}" must be of {kind}')
      for path in ("/api/generate", "/api/chat", "/api/embed")
      for name, value, kind in (*((name, "x", "type integer") for name in INTEGERS), *((name, "1", "type float32") for name in FLOATS),
                                ("top_k", True, "type integer"), ("temperature", [], "type float32"), ("use_mmap", 1, "type boolean"),
                                ("use_mmap", "true", "type boolean"), ("stop", "x", "type array"), ("stop", ["x", 1], "an array of strings"))),
    ("2.1 wrong options of a load", POST, "/api/generate", {"model": "m", "options": {"num_ctx": "x"}}, 500,
     'option "num_ctx" must be of type integer'),
    *(("1.3 unsupported thinking", POST, path, {"model": "m", "prompt": "x", "messages": USER, "think": think}, 400,
       '"m" does not support thinking') for path in ("/api/generate", "/api/chat") for think in (True, "low", "max")),
    ("1.3 unsupported thinking, by the name that was sent", POST, "/api/chat", {"model": "M:Latest", "messages": USER, "think": True}, 400,
     '"M:Latest" does not support thinking'),
    ("1.3 tools are missing", POST, "/api/chat", {"model": "m", "messages": USER, "tools": [TOOL]}, 400,
     "registry.ollama.ai/library/m:latest does not support tools"),
    ("1.3 insert is missing", POST, "/api/generate", {"model": "m", "prompt": "x", "suffix": "y"}, 400,
     "registry.ollama.ai/library/m:latest does not support insert"),
    ("1.3 vision is missing", POST, "/api/generate", {"model": "m", "prompt": "x", "images": ["YQ=="]}, 400,
     "registry.ollama.ai/library/m:latest does not support vision"),
    ("1.3 vision is missing", POST, "/api/chat", {"model": "m", "messages": [{"role": "user", "content": "x", "images": ["YQ=="]}]}, 400,
     "registry.ollama.ai/library/m:latest does not support vision"),
    ("2.2 unsupported images", POST, "/api/generate", {"model": "seeing", "prompt": "x", "images": ["YQ=="]}, 400,
     "images are not supported yet: seeing:latest runs on text alone"),
    ("1.3 several capabilities are missing", POST, "/api/chat",
     {"model": "m", "messages": [{"role": "user", "content": "x", "images": ["YQ=="]}], "tools": [TOOL]}, 400,
     "registry.ollama.ai/library/m:latest does not support tools\nregistry.ollama.ai/library/m:latest does not support vision"),
    *(("1.3 bad format", POST, path, {"model": "m", "prompt": "x", "messages": USER, "format": form}, 500,
       f'invalid format: {json.dumps(form)}; expected "json" or a valid JSON Schema object')
      for path in ("/api/generate", "/api/chat") for form in ("xml", 5, True)),
    *(("2.1 unsupported schema", POST, path, {"model": "m", "prompt": "x", "messages": USER, "format": {"not": {}}}, 400,
       'grammar (json_schema): JSON Schema keyword "not" at # is not supported')
      for path in ("/api/generate", "/api/chat")),
    ("2.2 invalid template", POST, "/api/generate", {"model": "m", "prompt": "x", "template": "{{ if }}"}, 500,
     "template: :1: missing value for if"),
    ("1.3 the first failing check answers: decode before name", POST, "/api/generate", {"model": "none", "prompt": 5}, 400,
     wrong_type("number", "GenerateRequest", "prompt", "string")),
    ("1.3 the first failing check answers: name before capability", POST, "/api/generate", {"model": "none", "prompt": "x", "suffix": "y"},
     404, "model 'none' not found"),
    ("1.3 the first failing check answers: capability before options", POST, "/api/generate",
     {"model": "m", "prompt": "x", "suffix": "y", "options": {"seed": "x"}}, 400,
     "registry.ollama.ai/library/m:latest does not support insert"),
]

# The prompt that a request is rendered to. "all" has the system text "S" and the message "Q" with its answer "A".
RENDERED = [
    ("2.2 a prompt is a message after those of the model", "/api/generate", {"prompt": "P"}, "+[system]S[user]Q[assistant]A[user]P"),
    ("2.2 the request's system replaces the model's", "/api/generate", {"prompt": "P", "system": "T"},
     "+[system]T[user]Q[assistant]A[user]P"),
    ("2.2 a template of the request", "/api/generate", {"prompt": "P", "template": "{{ range .Messages }}({{ .Content }}){{ end }}"},
     "(S)(Q)(A)(P)"),
    ("2.2 a context leaves out the model's messages", "/api/generate", {"prompt": "P", "context": [1, 2]}, "+[system]S[user]P"),
    ("2.2 raw is not changed", "/api/generate", {"prompt": "P{{ x", "raw": True}, "P{{ x"),
    ("2.2 a suffix", "/api/generate", {"prompt": "P", "suffix": "U"}, "(P|U)"),
    ("2.1 think: absent is true", "/api/chat", {"messages": USER}, "+[system]S[user]Q[assistant]A[user]Hi"),
    ("2.1 think: null is absent", "/api/chat", {"messages": USER, "think": None}, "+[system]S[user]Q[assistant]A[user]Hi"),
    ("2.1 think: false", "/api/chat", {"messages": USER, "think": False}, "-[system]S[user]Q[assistant]A[user]Hi"),
    *(("2.1 think: a level", "/api/generate", {"prompt": "P", "think": level}, "+[system]S[user]Q[assistant]A[user]P")
      for level in ("low", "medium", "high", "max")),
    ("2.3 roles in lower case, and unknown roles", "/api/chat",
     {"messages": [{"role": "USER", "content": "a"}, {"role": "Narrator", "content": "b"}, {"role": "tool", "content": "c"}]},
     "+[system]S[user]Q[assistant]A[user]a[narrator]b[tool]c"),
    ("2.3 thinking of earlier messages", "/api/chat",
     {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "thinking": "t"}, *USER]},
     "+[system]S[user]Q[assistant]A[user]a[assistant]<think>t</think>b[user]Hi"),
    ("2.3 tools in Ollama's format", "/api/chat", {"messages": USER, "tools": [TOOL]},
     '+{"type":"function","function":{"name":"add","description":"Adds.","parameters":{"type":"object","required":["a"],'
     '"properties":{"a":{"type":"number"}}}}}[system]S[user]Q[assistant]A[user]Hi'),
    ("1.1 names of fields in any case", "/api/generate", {"PROMPT": "P", "Think": False}, "-[system]S[user]Q[assistant]A[user]P"),
    ("1.1 unknown fields are ignored", "/api/generate", {"prompt": "P", "nonsense": {"a": [1]}}, "+[system]S[user]Q[assistant]A[user]P"),
    ("1.1 null is absent", "/api/generate",
     {"prompt": "P", **dict.fromkeys(("system", "template", "context", "raw", "format", "options", "keep_alive", "images", "suffix"))},
     "+[system]S[user]Q[assistant]A[user]P"),
    ("2.1 format: none", "/api/generate", {"prompt": "P", "format": ""}, "+[system]S[user]Q[assistant]A[user]P"),
    ("2.1 options that are accepted and ignored", "/api/generate",
     {"prompt": "P", "options": {"mirostat": "x", "mirostat_tau": [], "mirostat_eta": {}, "penalize_newline": 1, "low_vram": "x",
                                 "f16_kv": 1, "logits_all": 1, "vocab_only": 1, "use_mlock": 1, "numa": 1, "tfs_z": "x", "nonsense": []}},
     "+[system]S[user]Q[assistant]A[user]P"),
    ("2.1 fractions and nulls in options", "/api/generate",
     {"prompt": "P", "options": {"top_k": 3.9, "seed": 1.5, "num_ctx": None, "stop": None, "use_mmap": None, "temperature": 0}},
     "+[system]S[user]Q[assistant]A[user]P"),
]

# Every route: its path, and its methods as the Allow field lists them.
ROUTES = {
    "/": "GET, HEAD", "/api/version": "GET, HEAD", "/api/status": "GET", "/api/generate": "POST", "/api/chat": "POST", "/api/embed": "POST",
    "/api/embeddings": "POST", "/api/tags": "GET, HEAD", "/api/ps": "GET", "/api/show": "POST", "/api/copy": "POST",
    "/api/delete": "DELETE", "/api/blobs/" + NO_DIGEST: "HEAD, POST", "/api/create": "POST", "/api/pull": "POST", "/api/push": "POST",
    "/api/me": "POST", "/api/signout": "POST", "/api/user/keys/a": "DELETE", "/api/experimental/web_search": "POST",
    "/api/experimental/web_fetch": "POST", "/api/experimental/model-recommendations": "GET", "/v1/chat/completions": "POST",
    "/v1/completions": "POST", "/v1/embeddings": "POST", "/v1/models": "GET", "/v1/models/m": "GET"}
ABSENT = ("/v1/messages/batches", "/v1/images/generations", "/v1/moderations", "/api/nothing", "/nothing", "/api", "/API/tags")
