"""A whole document, translated passage by passage."""

from pathlib import Path
from typing import Any

from attendo.cli.results import raw_output
from attendo.cli.telling import Telling
from attendo.documents.document import read_document
from attendo.reporting import Reporter
from attendo.storage import write_file
from attendo.translator import Translator

PASSAGES = 200  # translated together


def translate_document(
    translator: Translator, path: str, out: str | None, how: dict[str, Any], reporter: Reporter
) -> None:
    """`how` are further arguments of `Translator.translate_many`. The result is written whole or not at all."""
    document = read_document(path)
    tell, translations = Telling(reporter, "Passage"), []
    chunks = [document.passages[i : i + PASSAGES] for i in range(0, len(document.passages), PASSAGES)]
    for chunk in reporter.track(chunks, "Translating"):
        for translation in translator.translate_many(
            [one.text for one in chunk], keep=[one.keep for one in chunk], **how
        ):
            translations.append(translation.text)
            tell.of(len(translations), translation)
    tell.terms()
    filled = document.filled(translations)
    if out is None:
        raw_output(filled)
    else:
        write_file(Path(out), filled)
