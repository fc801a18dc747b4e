"""The settings that choose the parts of a model. Without torch, so that a bundle can be opened without it."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from attendo.config import ABOVE_ZERO, NOT_NEGATIVE, POSITIVE, PROBABILITY, Rule, Settings
from attendo.nn.names import ActivationName, Layout, NormName, NormPlace

PositionsName = Literal["none", "sinusoidal", "sinusoidal-concatenated", "learned", "rotary", "shaw", "t5", "complex"]
ScoringName = Literal["scaled-dot", "dot", "additive"]
SpanName = Literal["full", "window", "chunk"]
HeadsName = Literal["joined", "branched"]
SharingName = Literal["none", "groups", "all"]
# target: the decoder's input and output share; inputs: those of encoder and decoder do
TyingName = Literal["all", "target", "inputs", "none"]
CellName = Literal["lstm", "gru"]
ScaleName = Literal["root", "one"]
PoolingName = Literal["first", "mean"]
TextPoolingName = Literal["first", "mean", "max"]
ClassifierPoolingName = Literal["first", "mean", "max", "spans"]
AttentionKind = Literal["encoder", "decoder", "cross"]  # self-attention of the two, and from decoder to encoder
PoolerName = Literal["tanh", "relu"]

# What a model does in training only: another rate fits the same weights.
RATES: tuple[str, ...] = ("residual_dropout", "attention_dropout", "activation_dropout", "word_dropout", "layer_drop")

# Settings that nothing but a layer has.
OF_A_LAYER = (
    *("d_ff", "n_heads", "scoring", "share_query_key", "n_key_heads", "value_rank", "heads", "span", "activation"),
    *("share_layers", "init_by_depth", "attention_dropout", "activation_dropout", "layer_drop"),
)

BUCKETS = Rule("must be an even number of at least 4", lambda value: value >= 4 and value % 2 == 0)
ODD = Rule("must be an odd number, so that a position stands in the middle of what it sees", lambda n: n % 2 == 1)
WIDTHS = Rule("must be a list of numbers of at least 1", lambda value: value and min(value) >= 1)
CHANNELS = Rule("must be a list of 1 or 3 numbers", lambda value: len(value) in (1, 3))


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Settings):
    """What the settings of every model can tell, so that nobody need ask which model it is."""

    kind: str
    d_model: Annotated[int, POSITIVE]

    rates = RATES
    n_extra = 0  # ids after those of the tokenizer
    n_heads = 1  # of each attention
    read_end = True  # whether the encoder sees the </s> of a source

    @property
    def batch_statistics(self) -> bool:
        """Whether it learns from a batch as a whole, which can be divided among processes as little as averaged."""
        return False

    @property
    def longest_target(self) -> int | None:
        """How many ids a target may have at most, without EOS; None is any number. BOS has a position, too."""
        return None

    @property
    def attentions(self) -> dict[AttentionKind, int]:
        """In how many layers there is each kind of attention."""
        raise NotImplementedError

    def in_words(self) -> str:
        """The sizes, for people."""
        raise NotImplementedError

    def unused(self) -> Iterator[tuple[str, str]]:
        """(key, why in words) of each setting that was changed and belongs to a part that is not chosen."""
        yield from ()


@dataclass(frozen=True, kw_only=True)
class LayerConfig(ModelConfig):
    """The parts of a layer, and their sizes. The defaults are the paper's base model."""

    d_model: Annotated[int, POSITIVE] = 512
    d_ff: Annotated[int, POSITIVE] = 2048
    n_heads: Annotated[int, POSITIVE] = 8
    d_key: Annotated[int | None, POSITIVE] = None  # None: d_model / n_heads
    d_value: Annotated[int | None, POSITIVE] = None  # None: d_model / n_heads

    positions: PositionsName = "sinusoidal"
    sinusoid_layout: Layout = "interleaved"
    n_positions: Annotated[int, POSITIVE] = 512  # learned
    position_offset: Annotated[int, NOT_NEGATIVE] = 0  # learned: vectors before the first place's, of no use
    rotary_base: Annotated[float, ABOVE_ZERO] = 10000.0  # rotary: the slowest turn takes about 2π times so many places
    max_distance: Annotated[int, POSITIVE] = 16  # shaw: farther is taken for this far
    n_buckets: Annotated[int, BUCKETS] = 32  # t5
    bucket_distance: Annotated[int, POSITIVE] = 128  # t5: farther is in the last bucket

    scoring: ScoringName = "scaled-dot"
    share_query_key: bool = False
    n_key_heads: Annotated[int | None, POSITIVE] = None  # None: n_heads; fewer: grouped-query, 1: multi-query
    value_rank: Annotated[int | None, POSITIVE] = None  # None: a full matrix
    heads: HeadsName = "joined"  # branched: the Weighted Transformer
    span: SpanName = "full"  # how far self-attention sees
    window: Annotated[int, POSITIVE] = 8  # positions on each side
    chunk: Annotated[int, POSITIVE] = 8  # positions in a chunk
    left_chunks: Annotated[int, NOT_NEGATIVE] = 1  # chunks before the own one that are seen

    norm: NormName = "layernorm"
    norm_eps: Annotated[float | None, ABOVE_ZERO] = None  # None: 1e-5, with rmsnorm 1e-6
    norm_place: NormPlace = "post"
    activation: ActivationName = "relu"
    biases: bool = True  # of the matrices in attention and feed-forward network
    share_layers: SharingName = "none"  # groups: of layers_per_group each; all: one set of weights
    layers_per_group: Annotated[int, POSITIVE] = 2
    init_by_depth: bool = False  # the matrices of layer l begin smaller by √l
    embedding_scale: ScaleName = "root"  # of the words' vectors: √d_model, or as they are
    embedding_norm: bool = False  # a norm on the embeddings, before the first layer

    residual_dropout: Annotated[float, PROBABILITY] = 0.1  # also on the embeddings, as in the paper
    attention_dropout: Annotated[float, PROBABILITY] = 0.0
    activation_dropout: Annotated[float, PROBABILITY] = 0.0
    word_dropout: Annotated[float, PROBABILITY] = 0.0  # the probability that a token's whole vector is left out
    layer_drop: Annotated[float, PROBABILITY] = 0.0  # the probability that a layer is left out of a step

    @property
    def batch_statistics(self) -> bool:
        return self.norm == "batchnorm"

    @property
    def longest_target(self) -> int | None:
        return self.n_positions - 1 if self.positions == "learned" else None

    def _sizes(self) -> str:
        return (
            f"d_model {self.d_model}, d_ff {self.d_ff}, {self.n_heads} heads, {self.norm_place}-norm, "
            f"{self.positions} positions"
        )

    @property
    def key_size(self) -> int:
        return self.d_key or self.d_model // self.n_heads

    @property
    def value_size(self) -> int:
        return self.d_value or self.d_model // self.n_heads

    def conflicts(self) -> Iterable[tuple[str, str]]:
        if self.d_model % self.n_heads and (self.d_key is None or self.d_value is None):
            yield "d_model", f"must be a multiple of n_heads ({self.n_heads}) unless d_key and d_value are given"
            return  # what follows needs the sizes of a head
        yield from self._position_conflicts()
        yield from self._attention_conflicts()
        if self.norm == "batchnorm" and self.share_layers != "none":
            yield (
                "norm",
                f"batchnorm keeps running statistics for each place in the network, and with share_layers "
                f"'{self.share_layers}' one norm would stand at several; use another norm, or share_layers 'none'",
            )

    def unused(self) -> Iterator[tuple[str, str]]:
        """(key, why in words) of each setting that was changed and belongs to a part that is not chosen."""
        belonging = {
            "n_positions": (self.positions == "learned", f"positions is '{self.positions}', not 'learned'"),
            "position_offset": (self.positions == "learned", f"positions is '{self.positions}', not 'learned'"),
            "rotary_base": (self.positions == "rotary", f"positions is '{self.positions}', not 'rotary'"),
            "max_distance": (self.positions == "shaw", f"positions is '{self.positions}', not 'shaw'"),
            "n_buckets": (self.positions == "t5", f"positions is '{self.positions}', not 't5'"),
            "bucket_distance": (self.positions == "t5", f"positions is '{self.positions}', not 't5'"),
            "sinusoid_layout": ("sinusoidal" in self.positions, f"positions is '{self.positions}', without sinusoids"),
            "window": (self.span == "window", f"span is '{self.span}', not 'window'"),
            "chunk": (self.span == "chunk", f"span is '{self.span}', not 'chunk'"),
            "left_chunks": (self.span == "chunk", f"span is '{self.span}', not 'chunk'"),
            "layers_per_group": (self.share_layers == "groups", f"share_layers is '{self.share_layers}', not 'groups'"),
        }
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for key, (chosen, words) in belonging.items():
            if not chosen and getattr(self, key) != defaults[key]:
                yield key, words

    def _position_conflicts(self) -> Iterator[tuple[str, str]]:
        if self.positions == "rotary" and self.key_size % 2:
            yield "positions", f"rotary turns pairs of features, so d_key ({self.key_size}) must be even"
        if self.positions == "complex" and self.d_model % 2:
            yield "positions", f"complex reads features in pairs, so d_model ({self.d_model}) must be even"
        if self.positions in ("rotary", "shaw") and self.scoring == "additive":
            yield (
                "positions",
                f"{self.positions} works in the dot product of query and key, and scoring is 'additive'; use scoring "
                "'scaled-dot', or positions that do not need one: sinusoidal, learned, t5",
            )
        if self.positions == "t5" and self.bucket_distance <= self.n_buckets // 2:
            yield "bucket_distance", f"must be more than half of n_buckets ({self.n_buckets}), which are exact"

    def _attention_conflicts(self) -> Iterator[tuple[str, str]]:
        if self.n_key_heads is not None and self.n_heads % self.n_key_heads:
            yield "n_key_heads", f"must divide n_heads ({self.n_heads}): each serves as many heads of queries"
        if self.share_query_key and self.n_key_heads not in (None, self.n_heads):
            yield (
                "share_query_key",
                f"queries have n_heads ({self.n_heads}) and keys n_key_heads ({self.n_key_heads}), so one matrix "
                "cannot make both; leave one of the two out",
            )
        full_rank = min(self.d_model, (self.n_key_heads or self.n_heads) * self.value_size)
        if self.value_rank is not None and self.value_rank >= full_rank:
            yield "value_rank", f"must be less than the {full_rank} that a full matrix has here"
        if self.heads == "branched" and not self.biases:
            yield "biases", "branched heads have them; use heads 'joined'"
        if self.heads == "branched" and self.d_ff % self.n_heads:
            yield "heads", f"branched heads divide d_ff ({self.d_ff}) among n_heads ({self.n_heads}), without remainder"


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(LayerConfig):
    """Everything that determines the model. The defaults are the paper's base model."""

    kind: Literal["transformer"] = "transformer"
    source_vocab_size: Annotated[int, POSITIVE]
    target_vocab_size: Annotated[int, POSITIVE]
    n_encoder_layers: Annotated[int, POSITIVE] = 6
    n_decoder_layers: Annotated[int, POSITIVE] = 6
    tie_embeddings: TyingName = "all"
    output_bias: bool = True  # false: what is added to the logits is not learned
    output_scale: ScaleName = "one"  # of the vectors that logits are made of: as they are, or divided by √d_model
    share_encoder_decoder: bool = False  # self-attention and feed-forward network, layer by layer
    n_extra: Annotated[int, NOT_NEGATIVE] = 0  # ids after those of the tokenizer, which stand for what is hidden
    read_end: bool = True  # the encoder sees the </s> of a source; False: the tokenizer ends it in another way

    def conflicts(self) -> Iterable[tuple[str, str]]:
        yield from super().conflicts()
        yield from _tying_conflicts(self)
        if self.share_encoder_decoder and self.n_encoder_layers != self.n_decoder_layers:
            yield (
                "share_encoder_decoder",
                f"each decoder layer takes the weights of an encoder layer, and there are {self.n_encoder_layers} and "
                f"{self.n_decoder_layers}; give both the same number of layers",
            )
        if self.share_encoder_decoder and self.heads == "branched":
            yield (
                "share_encoder_decoder",
                "with branched heads the encoder's self-attention has the feed-forward network inside and the "
                "decoder's has not, so they cannot be one; use heads 'joined'",
            )

    @property
    def attentions(self) -> dict[AttentionKind, int]:
        return {"encoder": self.n_encoder_layers, "decoder": self.n_decoder_layers, "cross": self.n_decoder_layers}

    def in_words(self) -> str:
        return f"{self.n_encoder_layers}+{self.n_decoder_layers} layers, {self._sizes()}"


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ModelConfig):
    """Everything that determines a recurrent model. The defaults suit some ten thousand pairs."""

    kind: Literal["rnn"] = "rnn"
    source_vocab_size: Annotated[int, POSITIVE]
    target_vocab_size: Annotated[int, POSITIVE]
    d_model: Annotated[int, POSITIVE] = 256  # of the words' vectors and of the states
    cell: CellName = "lstm"
    n_encoder_layers: Annotated[int, POSITIVE] = 1
    n_decoder_layers: Annotated[int, POSITIVE] = 1
    both_ways: bool = True  # the encoder also reads from the end, each direction with half of the features
    scoring: ScoringName = "dot"
    n_heads: Annotated[int, POSITIVE] = 1  # of the attention
    tie_embeddings: TyingName = "all"
    dropout: Annotated[float, PROBABILITY] = 0.3  # on words' vectors, between layers, and before the output
    word_dropout: Annotated[float, PROBABILITY] = 0.0  # the probability that a token's whole vector is left out

    rates = ("dropout", "word_dropout")

    def conflicts(self) -> Iterable[tuple[str, str]]:
        yield from _tying_conflicts(self)
        if self.both_ways and self.d_model % 2:
            yield "d_model", "must be even, so that each direction of the encoder has half; or set both_ways to false"
        if self.d_model % self.n_heads:
            yield "d_model", f"must be a multiple of n_heads ({self.n_heads})"

    @property
    def attentions(self) -> dict[AttentionKind, int]:
        return {"encoder": 0, "decoder": 0, "cross": 1}  # from the last layer of the decoder

    def in_words(self) -> str:
        ways = "both ways" if self.both_ways else "one way"
        return (
            f"{self.n_encoder_layers}+{self.n_decoder_layers} layers of {self.cell.upper()}, {ways}, "
            f"d_model {self.d_model}, {self.scoring} attention of {self.n_heads} heads"
        )


@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(ModelConfig):
    """Everything that determines a convolutional model. The defaults suit some ten thousand pairs."""

    kind: Literal["conv"] = "conv"
    source_vocab_size: Annotated[int, POSITIVE]
    target_vocab_size: Annotated[int, POSITIVE]
    d_model: Annotated[int, POSITIVE] = 256
    n_encoder_layers: Annotated[int, POSITIVE] = 4
    n_decoder_layers: Annotated[int, POSITIVE] = 3
    width: Annotated[int, ODD] = 3  # positions that a convolution sees, its own included
    n_positions: Annotated[int, POSITIVE] = 512  # that are learned
    tie_embeddings: TyingName = "all"
    dropout: Annotated[float, PROBABILITY] = 0.2  # on words' vectors, and on what each layer sees
    word_dropout: Annotated[float, PROBABILITY] = 0.0  # the probability that a token's whole vector is left out

    rates = ("dropout", "word_dropout")

    @property
    def longest_target(self) -> int:
        return self.n_positions - 1

    def conflicts(self) -> Iterable[tuple[str, str]]:
        yield from _tying_conflicts(self)

    @property
    def attentions(self) -> dict[AttentionKind, int]:
        return {"encoder": 0, "decoder": 0, "cross": self.n_decoder_layers}

    def in_words(self) -> str:
        return (
            f"{self.n_encoder_layers}+{self.n_decoder_layers} convolutions of {self.width} positions, "
            f"d_model {self.d_model}"
        )


TranslationConfig = TransformerConfig | RecurrentConfig | ConvolutionalConfig


def _tying_conflicts(config: TranslationConfig) -> Iterator[tuple[str, str]]:
    if config.tie_embeddings in ("all", "inputs") and config.source_vocab_size != config.target_vocab_size:
        yield (
            "tie_embeddings",
            f"'{config.tie_embeddings}' needs one vocabulary, and there are {config.source_vocab_size} source and "
            f"{config.target_vocab_size} target pieces; use 'target', or a joint tokenizer (tokenizer.joint=true)",
        )


@dataclass(frozen=True, kw_only=True)
class GPTConfig(LayerConfig):
    """Everything that determines a decoder that continues texts."""

    kind: Literal["gpt"] = "gpt"
    vocab_size: Annotated[int, POSITIVE]
    n_layers: Annotated[int, POSITIVE] = 6
    tie_embeddings: bool = True  # input and output share one matrix
    output_bias: bool = True  # false: what is added to the logits is not learned

    @property
    def attentions(self) -> dict[AttentionKind, int]:
        return {"encoder": 0, "decoder": self.n_layers, "cross": 0}

    def in_words(self) -> str:
        return f"{self.n_layers} layers, {self._sizes()}"


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(LayerConfig):
    """An encoder of one text, or of two as segments; the last of its ids is the mask."""

    vocab_size: Annotated[int, POSITIVE]
    n_layers: Annotated[int, POSITIVE] = 6
    embedding_scale: ScaleName = "one"
    embedding_norm: bool = True
    n_segments: Annotated[int, NOT_NEGATIVE] = 2  # vectors that tell the texts of a row apart; 0: none
    n_separators: Annotated[int, POSITIVE] = 1  # ids that stand between two texts
    text_vector: PoolingName = "mean"  # what stands for a text where its vector is asked for
    unit_vectors: bool = False  # such a vector is brought to length one

    @property
    def attentions(self) -> dict[AttentionKind, int]:
        return {"encoder": self.n_layers, "decoder": 0, "cross": 0}

    def in_words(self) -> str:
        return f"{self.n_layers} layers, {self._sizes()}"


@dataclass(frozen=True, kw_only=True)
class BertConfig(EncoderConfig):
    """Everything that determines an encoder that tells what is behind a mask."""

    kind: Literal["bert"] = "bert"
    next_sentence: bool = False  # also tells whether the second segment follows the first
    mask_head: bool = True  # false: an encoder alone, that gives vectors and can become a classifier
    pooler: bool = False  # next_sentence has one anyhow; a classifier made of this model takes it over

    def conflicts(self) -> Iterable[tuple[str, str]]:
        yield from super().conflicts()
        if self.next_sentence and not self.mask_head:
            yield "next_sentence", "is asked beside what is hidden, and without mask_head nothing is"


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(EncoderConfig):
    """Everything that determines an encoder that tells which label a text has."""

    kind: Literal["classifier"] = "classifier"
    n_labels: Annotated[int, POSITIVE]
    n_layers: Annotated[int, NOT_NEGATIVE] = 6  # 0: what stands for the text is made of its pieces' embeddings
    # What stands for the text: its first vector, the mean of all, of each feature the largest; or what filters find in
    # spans of it.
    pooling: ClassifierPoolingName = "first"
    pooler_activation: PoolerName = "tanh"
    span_widths: Annotated[tuple[int, ...], WIDTHS] = (3, 4, 5)  # spans: how many vectors long
    n_filters: Annotated[int, POSITIVE] = 100  # spans: of each width
    label_dropout: Annotated[float | None, PROBABILITY] = None  # before the labels; None: residual_dropout

    rates = (*RATES, "label_dropout")

    def unused(self) -> Iterator[tuple[str, str]]:
        yield from super().unused()
        of_pooling = ("pooler_activation",) if self.pooling == "spans" else ("span_widths", "n_filters")
        yield from self._changed(of_pooling, f"pooling is '{self.pooling}'")
        if not self.n_layers:
            yield from self._changed(OF_A_LAYER, "n_layers is 0")

    def _changed(self, keys: Iterable[str], why: str) -> Iterator[tuple[str, str]]:
        return ((key, why) for key in keys if getattr(self, key) != getattr(type(self), key))

    def in_words(self) -> str:
        layers = super().in_words() if self.n_layers else f"no layers, d_model {self.d_model}"
        if self.pooling != "spans":
            return layers
        return f"{layers}, {self.n_filters} filters over {', '.join(map(str, self.span_widths))} pieces each"


@dataclass(frozen=True, kw_only=True)
class VisionConfig(LayerConfig):
    """Everything that determines a Vision Transformer, which tells which label a picture has."""

    kind: Literal["vit"] = "vit"
    n_labels: Annotated[int, POSITIVE]
    height: Annotated[int, POSITIVE]  # of all pictures, in pixels
    width: Annotated[int, POSITIVE]
    mean: Annotated[tuple[float, ...], CHANNELS]  # of each channel, from 0 to 255; in goes (pixel - mean) / deviation
    deviation: Annotated[tuple[float, ...], CHANNELS]
    patch: Annotated[int, POSITIVE] = 4  # pixels of a patch's side
    n_layers: Annotated[int, POSITIVE] = 6
    positions: PositionsName = "learned"  # a vector for each patch; sinusoidal: half of the features for the row
    pooling: PoolingName = "first"  # what stands for the picture: a vector before the patches, or the mean of all

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.height // self.patch, self.width // self.patch

    @property
    def attentions(self) -> dict[AttentionKind, int]:
        return {"encoder": self.n_layers, "decoder": 0, "cross": 0}

    @property
    def longest_target(self) -> None:
        return None

    def conflicts(self) -> Iterable[tuple[str, str]]:
        yield from super().conflicts()
        if self.height % self.patch or self.width % self.patch:
            yield "patch", f"must divide height ({self.height}) and width ({self.width}) of the pictures"
        if len(self.mean) != len(self.deviation):
            yield "deviation", f"must have as many channels as mean, which has {len(self.mean)}"
        if self.positions not in ("none", "learned", "sinusoidal"):
            yield "positions", "patches stand in rows and columns, for which there are none, learned and sinusoidal"
        if self.positions == "sinusoidal" and self.d_model % 2:
            yield "d_model", "must be even, so that rows and columns have half of the sinusoids each"
        if self.span != "full":
            yield "span", "is a distance in a text, and patches stand in rows and columns; use 'full'"

    def unused(self) -> Iterator[tuple[str, str]]:
        yield from super().unused()
        for key in ("n_positions", "position_offset", "sinusoid_layout", "word_dropout"):
            if getattr(self, key) != getattr(type(self), key):
                yield key, "it belongs to texts, and these are pictures"

    def in_words(self) -> str:
        pictures = f"{self.height} × {self.width} pixels in patches of {self.patch} × {self.patch}"
        return f"{pictures}, {self.n_layers} layers, {self._sizes()}"


AnyModel = TranslationConfig | GPTConfig | BertConfig | ClassifierConfig | VisionConfig
