"""`attendo serve`"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import click

from attendo.cli.options import common, executing, given
from attendo.serving.limits import Limits

LIMITS = {
    "body_bytes": "Bytes of a request.",
    "characters": "Characters of a request's texts.",
    "sentences": "Sentences of a request.",
    "beam": "Widest beam that a request may ask for.",
    "max_length": "Pieces that a request may allow the translation of a sentence.",
    "terms": "Terms of a request's glossary.",
    "held": "Pieces that a sentence's numbers, placeholders, terms and so on may have to be searched for.",
    "inspected": "Pieces of a sentence that is looked into.",
    "requests": "Requests worked on at once, those that wait included.",
    "queue": "Sentences that wait, of all requests.",
    "seconds": "Seconds that a request may take.",
}


def limited(command: Callable[..., None]) -> Callable[..., None]:
    """What the server takes, an option for each limit; handed over together, as `limits`."""
    defaults = {field.name: field.default for field in dataclasses.fields(Limits)}

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        command(limits=Limits(**{name: values.pop(f"limit_{name}") for name in LIMITS}), **values)

    decorated: Any = wrapped
    for name, words in reversed(LIMITS.items()):
        default = defaults[name]
        kind = click.FloatRange(min=0, min_open=True) if isinstance(default, float) else click.IntRange(min=1)
        flag = f"--limit-{name.replace('_', '-')}"
        decorated = click.option(flag, type=kind, default=default, show_default=True, help=words)(decorated)
    return decorated


@click.command(name="serve")
@click.argument("bundles", nargs=-1, required=True, metavar="BUNDLE...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 is any free one.")
@click.option("--api-keys", type=click.Path(), help="A file of keys, one a line, each with its requests a minute.")
@click.option("--cors", multiple=True, metavar="ORIGIN", help="A web page from there may ask; may be repeated. [none]")
@click.option("--log-text", is_flag=True, help="Texts get into the log, which has none otherwise.")
@click.option("--batch-tokens", type=click.IntRange(min=1), help="Source pieces in a batch, times the beam. [2048]")
@limited
@executing
@common("device", "quiet")
def command(
    bundles: tuple[str, ...],
    host: str,
    port: int,
    api_keys: str | None,
    cors: tuple[str, ...],
    log_text: bool,
    batch_tokens: int | None,
    limits: Limits,
    engine: Any,
    precision: Any,
    device: Any,
    quiet: bool,
) -> None:
    """Serve bundles over HTTP until SIGTERM or Ctrl-C: a web page, attendo's own API and LibreTranslate's.

    A bundle is addressed by its folder's name, or as NAME=BUNDLE by another one; where the languages leave one model,
    no name is needed. The log is JSON, a line for each request, on standard error.
    """
    from concurrent.futures import ThreadPoolExecutor

    from attendo.serving import log
    from attendo.serving.app import build
    from attendo.serving.keys import read_keys
    from attendo.serving.models import Models, named_bundles, warm_up
    from attendo.serving.server import bound, serve
    from attendo.serving.service import Service
    from attendo.serving.threads import stand_back
    from attendo.translator import load

    log.configure(quiet=quiet)
    keys = read_keys(api_keys) if api_keys is not None else None
    named = named_bundles(bundles)
    with bound(host, port) as at:
        how = {"engine": engine, "precision": precision, "device": device, "reporter": log.Logged()}
        with ThreadPoolExecutor(1, initializer=stand_back) as loading:  # an engine's own threads begin there
            found = loading.submit(lambda: {name: load(path, **how) for name, path in named.items()})
            models = Models(found.result())
            for translator in models.translators.values():
                loading.submit(warm_up, translator).result()
        service = Service(models, limits, **given(batch_tokens=batch_tokens))
        serve(build(service, keys=keys, cors=cors, log_text=log_text), service, at)
