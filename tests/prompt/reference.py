"""The reference for renderings: Jinja2 with the settings of the transformers library for chat templates."""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %} around an assistant's text: renders its body in a scope."""

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
    """Returns the environment. `changes_lists`: also allow .append and .pop, which the sandbox of transformers refuses."""
    sandbox = jinja2.sandbox
    kind = sandbox.SandboxedEnvironment if changes_lists else sandbox.ImmutableSandboxedEnvironment
    environment = kind(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.filters["from_json"] = json.loads  # DeepSeek's templates expect it
    environment.globals["raise_exception"] = raise_exception
    return environment


def compile_template(environment, source):
    """Returns the template, or the exception that its compilation raised."""
    try:
        return environment.from_string(source)
    except jinja2.exceptions.TemplateError as error:
        return error


def render(template, variables):
    """Returns the rendering and "", or None and the exception."""
    if isinstance(template, Exception):
        return None, repr(template)
    clock = datetime.datetime.fromisoformat(variables["strftime_now"])
    variables = {k: v for k, v in variables.items() if k != "strftime_now"}
    try:
        return template.render(variables, strftime_now=clock.strftime), ""
    except Exception as error:  # Billow must refuse whatever raises in Python
        return None, f"{type(error).__name__}: {error}"
