"""Jinja2 set up as the transformers library sets it up for chat templates: what every rendering is compared with."""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %} around what an assistant wrote: renders its body in a scope."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def make_environment(changes_lists=False):
    """`changes_lists`: also allow .append and .pop, which the sandbox of transformers refuses."""
    sandbox = jinja2.sandbox
    kind = sandbox.SandboxedEnvironment if changes_lists else sandbox.ImmutableSandboxedEnvironment
    environment = kind(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.filters["from_json"] = json.loads  # as DeepSeek's templates expect it
    environment.globals["raise_exception"] = raise_exception
    return environment


def compile_template(environment, source):
    """The template, or what its compilation raised."""
    try:
        return environment.from_string(source)
    except jinja2.exceptions.TemplateError as error:
        return error


def render(template, variables):
    """The rendering, or None and what was raised."""
    if isinstance(template, Exception):
        return None, repr(template)
    clock = datetime.datetime.fromisoformat(variables["strftime_now"])
    variables = {k: v for k, v in variables.items() if k != "strftime_now"}
    try:
        return template.render(variables, strftime_now=clock.strftime), ""
    except Exception as error:  # whatever Python raises, Billow must refuse too
        return None, f"{type(error).__name__}: {error}"
