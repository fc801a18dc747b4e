"""The metric in which papers report Multi30K, which sacreBLEU alone does not give.

The data set's own preparation is three Perl scripts of Moses in a row,

    lowercase.perl | normalize-punctuation.perl -l LANGUAGE | tokenizer.perl -l LANGUAGE

and BLEU is counted over the tokens as they come out. `prepare` is that pipeline by sacremoses; it turns all raw
files of Multi30K (English, German, French; training, validation and test) into the published `lc.norm.tok` files
exactly.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sacrebleu.metrics import BLEU
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from attendo.errors import DataError
from attendo.evaluation.scores import Score, corpus_score


def prepare(lines: Iterable[str], language: str) -> list[str]:
    """Lowercase, normalise punctuation, split into Moses tokens with `&apos;`, `&quot;` … escaped."""
    # perl_parity: the script makes ’ a double quote, which sacremoses by default takes for a slip and corrects.
    normalizer = MosesPunctNormalizer(lang=language, perl_parity=True)
    tokenizer = MosesTokenizer(lang=language)
    return [
        tokenizer.tokenize(
            # The script sees each line with its line feed, and so also swaps `."` at the very end of a line.
            normalizer.normalize(line.lower() + "\n"),
            aggressive_dash_splits=False,
            escape=True,
            return_str=True,
        )
        for line in lines
    ]


def literature_bleu(
    hypotheses: Sequence[str],
    *,
    references_tokenised: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    language: str,
) -> Score:
    """BLEU of raw `hypotheses` after `prepare`, without any further tokenisation.

    `references_tokenised` are the data set's `lc.norm.tok` lines, taken as they are. Where a data set has none, the
    raw `references` go through the same steps as the hypotheses.
    """
    if references_tokenised is None:
        if references is None:
            raise DataError("the literature's BLEU needs references, tokenised or raw; none were given.")
        references_tokenised = prepare(references, language)
    score = corpus_score(BLEU(tokenize="none", force=True), prepare(hypotheses, language), references_tokenised)
    return replace(score, name="BLEU (lowercased, normalised, Moses tokens)")
