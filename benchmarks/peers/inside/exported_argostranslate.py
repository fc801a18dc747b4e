"""What `attendo export --to argos` wrote, installed and translated with by argostranslate alone.

    python -m benchmarks.peers.inside.exported_argostranslate JOB.json

Its settings are environment variables, which whoever starts this sets. Of sentence splitters it has none that leaves a
line whole (ARGOS_CHUNK_TYPE=NONE is not implemented in 1.11), so the one that it has made is replaced.
"""

import json
import sys
from pathlib import Path

from argostranslate import package, translate


class WholeLines:
    def split_sentences(self, text: str) -> list[str]:
        return [text]


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    package.install_from_path(Path(job["model"]))
    (installed,) = package.get_installed_packages()
    languages = {one.code: one for one in translate.get_installed_languages()}
    translation = languages[installed.from_code].get_translation(languages[installed.to_code])
    translation.underlying.sentencizer = WholeLines()
    pieces, decode = [], translation.underlying.pkg.tokenizer.decode

    def noted(tokens: list[str]) -> str:
        pieces.append(tokens)
        text: str = decode(tokens)
        return text

    translation.underlying.pkg.tokenizer.decode = noted
    texts = [translation.underlying.translate(text) for text in job["texts"]]  # without the cache of its last texts
    Path(job["out"]).write_text(json.dumps({"texts": texts, "pieces": pieces}))


if __name__ == "__main__":
    main()
