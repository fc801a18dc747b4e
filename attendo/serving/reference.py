"""The description of the API as a page for people. It needs nothing from elsewhere: no script, no font, no network."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; font-size: 1.1rem; } code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
h2 code { background: #eee; color: #111; padding: 0.2em 0.5em; border-radius: 0.3em; }
table { border-collapse: collapse; } td, th { padding: 0.2rem 1rem 0.2rem 0; text-align: left; vertical-align: top; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd; } a { color: #8bf; } }
"""


def page(description: Mapping[str, Any]) -> str:
    """The page of an OpenAPI description."""
    title = escape(f"{description['info']['title']} {description['info']['version']}")
    body = "\n".join(_operations(description))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body><h1>{title}</h1>\n'
        f'<p>{escape(description["info"]["description"])} For programs: <a href="openapi.json">openapi.json</a>.</p>\n'
        f"{body}\n</body></html>\n"
    )


def _operations(description: Mapping[str, Any]) -> Iterator[str]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code> {escape(operation['summary'])}</h2>"
            sent = operation.get("requestBody", {"content": {}})["content"]
            for schema in [media["schema"] for media in sent.values()][:1]:
                yield f"<p>Send {escape(' or '.join(sent))}:</p>"
                yield from _fields(_resolved(schema, description), description)
            for status, answer in operation["responses"].items():
                yield f"<p><b>{escape(status)}</b> {escape(answer['description'])}</p>"
                if status == "200":
                    for schema in [media.get("schema", {}) for media in answer.get("content", {}).values()][:1]:
                        yield from _fields(_resolved(schema.get("items", schema), description), description)


def _fields(schema: Mapping[str, Any], description: Mapping[str, Any]) -> Iterator[str]:
    """A table of an object's fields, and below it those of the objects in it."""
    properties = schema.get("properties", {})
    if not properties:
        return
    yield "<table>"
    for name, field in properties.items():
        needed = " (needed)" if name in schema.get("required", ()) and "default" not in field else ""
        words = escape(field.get("description", ""))
        yield f"<tr><td><code>{escape(name)}</code></td><td>{escape(_kind(field))}{needed}</td><td>{words}</td></tr>"
    yield "</table>"
    for name, field in properties.items():
        inner = _resolved(field.get("items", field), description)
        if "properties" in inner:
            yield f"<p>In <code>{escape(name)}</code>:</p>"
            yield from _fields(inner, description)


def _kind(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return "object"
    if "anyOf" in field:
        return " or ".join(kind for kind in map(_kind, field["anyOf"]) if kind != "null")
    if "enum" in field:
        return " or ".join(map(str, field["enum"]))
    kind = str(field.get("type", "any"))
    return f"list of {_kind(field['items'])}" if kind == "array" and "items" in field else kind


def _resolved(schema: Mapping[str, Any], description: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference such as #/components/schemas/Name stands for."""
    if "$ref" not in schema:
        return schema
    return description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
