"""What CTranslate2 can do, and in a sentence why it cannot do the rest. docs/engines.md has it as tables."""

from attendo.decoding.search import SearchOptions
from attendo.models.settings import ModelConfig, TransformerConfig

SOURCE_END = "end"  # EOS of a source; see ctranslate2_model.py
TABLE_POSITIONS = 4096  # of the tables that stand for positions without a limit


def representable(config: ModelConfig, who: str = "CTranslate2") -> str | None:
    """Why CTranslate2, or whoever knows the same parts, cannot run such a model, in a sentence; None: it can."""
    if not isinstance(config, TransformerConfig):
        return f"its kind is '{config.kind}', and of attendo's models {who} runs Transformers alone"
    if not config.read_end:
        return f"with read_end '{config.read_end}' the </s> of a source is not seen, and {who} sees all of it"
    if config.positions == "complex":
        return f"positions 'complex' turn every word by frequencies of its own, which {who} cannot"
    if config.scoring == "additive":
        return f"scoring 'additive' is not a dot product, the one scoring that {who} has"
    if config.span != "full":
        return f"with span '{config.span}' self-attention does not see all, and in {who} it does"
    if config.heads == "branched":
        return f"heads 'branched' have feed-forward networks inside, which {who} has not"
    if config.norm == "batchnorm":
        return f"norm 'batchnorm' is none of the norms that {who} has"
    if config.activation == "relu2":
        return f"activation 'relu2' is none of the activations that {who} has"
    if config.embedding_norm and config.norm == "scalenorm":
        return f"norm 'scalenorm' is not what {who} has on embeddings"
    if config.n_extra:
        return f"it knows hidden text (n_extra '{config.n_extra}'), which attendo does not give to {who}"
    return None


def unsupported(options: SearchOptions, *, prefixes: bool = False, phrases: bool = False) -> str | None:
    """Why CTranslate2 cannot search so, in a sentence; None: it can."""
    if options.sample:
        return "its samples cannot be drawn again for the same sentence in another batch (sample)"
    if options.diversity_groups > 1:
        return "it has no groups that avoid each other (diversity_groups)"
    if options.no_repeat_ngram:
        return "it gives the probability of what may not be repeated to the rest (no_repeat_ngram)"
    if prefixes and options.beam > 1:
        return "a beam of it cannot end right behind a prefix (prefixes)"
    if phrases:
        return "it cannot be made to say what a translation must hold (phrases)"
    if options.beam > 1 and options.stopping != "first":
        return f"it cannot go on for something better (stopping '{options.stopping}'); it knows 'first' only"
    return None


def n_positions(config: TransformerConfig) -> int | None:
    """How many positions the written model has; None is any number. Where attendo has no limit, a table has one."""
    if config.positions in ("rotary", "shaw", "t5"):
        return None
    return config.n_positions if config.positions == "learned" else TABLE_POSITIONS
