"""Looking inside any bundle."""

from collections.abc import Sequence
from pathlib import Path

from attendo.bundle import Bundle, open_bundle
from attendo.decoding.search import SearchOptions
from attendo.errors import ConfigError
from attendo.inspection.inspector import Inspection, Inspector
from attendo.inspection.reading import READERS, Reading, read
from attendo.machine import DeviceName


def inspect(
    bundle: Bundle | Path | str,
    text: Path | str,
    *,
    target: str | None = None,
    options: SearchOptions | None = None,
    without_heads: Sequence[str] = (),
    device: DeviceName = "auto",
) -> Inspection | Reading:
    """Looks inside a bundle while it translates one sentence, reads a given translation of it (`target`), or reads a
    text; for a classifier of pictures, `text` is a file."""
    opened = bundle if isinstance(bundle, Bundle) else open_bundle(bundle)
    if opened.config.task in READERS:
        if target is not None or options is not None:
            raise ConfigError(f"target and options are for translators, and {opened.path} is none. Leave them out.")
        return read(opened, str(text), without=without_heads, device=device)
    return Inspector.from_bundle(opened, device=device).inspect(
        str(text), target=target, options=options, without=without_heads
    )
