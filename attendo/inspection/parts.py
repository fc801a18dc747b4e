"""The catalogue: every part that can be exchanged, in a sentence, with its paper and where the notes speak of it.

The notes are the five study notes that attendo follows. They are named by their title, then the heading, in their own
words: "week4: transformers", "Transformer Q&A" (of the two called "Transformer" the one that asks questions, by their
numbers), "Transformer", "大模型基础" and "Paper reading" (on "Attention Is All You Need"). "after …" is where they
raise the question that a part answers, or the idea it develops.
"""

from dataclasses import dataclass

EXACT = "The same result with a cache and in any batch."
BEYOND = "beyond the notes"

INTRODUCTION = (
    "Every part that can be exchanged. Settings are for attendo train --set, options for attendo translate; the "
    "defaults are the paper's model, and presets choose some themselves. Unless it says otherwise, a part gives the "
    "same result with a cache and in any batch; one that is not fused does without torch's fused attention, which is "
    "faster. The equations, and what cannot be combined: docs/parts.md."
)

VASWANI = "Vaswani et al. 2017, Attention Is All You Need, arXiv:1706.03762"
ALBERT = "Lan et al. 2020, ALBERT, arXiv:1909.11942"
PRESS = "Press & Wolf 2017, Using the Output Embedding to Improve Language Models, arXiv:1608.05859"
SUTSKEVER = "Sutskever et al. 2014, Sequence to Sequence Learning with Neural Networks, arXiv:1409.3215"
HOLTZMAN = "Holtzman et al. 2020, The Curious Case of Neural Text Degeneration, arXiv:1904.09751"

FEED_FORWARD = "Transformer, position-wise feed-forward network"
LAYER_NORM = "Transformer, Layer Norm"
SHARING = "Transformer, 训练技巧 (参数共享)"
BEAM = "Transformer, 训练技巧 (Beam search)"
REGULARIZATION = "Transformer, Regularization"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part.

    setting: what chooses it: `model.positions=rotary` for `attendo train --set`, `--beam 1` for `attendo translate`.
    what: one sentence.
    paper: authors, year, title, number.
    notes: where in the notes the idea stands; "after …" or "beyond the notes" where it is not there itself.
    fused: for what concerns attention, whether torch's fused kernel computes it; else None.
    exact: what caching and batching change, if anything.
    default: whether it is taken unless a preset or a user says otherwise.
    """

    group: str
    setting: str
    what: str
    paper: str
    notes: str
    fused: bool | None = None
    exact: str = EXACT
    default: bool = False


PARTS = (
    # --- Positions ------------------------------------------------------------------------------------------------
    Part(
        group="Positions",
        setting="model.positions=none",
        what="No positions at all: the encoder sees a bag of words, the decoder only what its causal mask gives away.",
        paper="Haviv et al. 2022, Transformer Language Models without Positional Encodings Still Learn Positional "
        "Information, arXiv:2203.16634",
        notes="after week4: transformers, 1.2 模型特点; Transformer Q&A, Q10",
        fused=True,
    ),
    Part(
        group="Positions",
        setting="model.positions=sinusoidal",
        what="Sines and cosines of many wavelengths are added to the embeddings; nothing is learned, no length is "
        "too long.",
        paper=VASWANI,
        notes="week4: transformers, 1.2 模型特点; Paper reading, 位置编码; Transformer Q&A, Q10",
        fused=True,
        default=True,
    ),
    Part(
        group="Positions",
        setting="model.positions=sinusoidal-concatenated",
        what="The same sinusoids stand beside the embedding instead of on top of it, and a matrix learns what of each "
        "to keep.",
        paper=f"{VASWANI}, for the sinusoids; to concatenate them is the notes' remark",
        notes="week4: transformers, 1.2 模型特点",
        fused=True,
    ),
    Part(
        group="Positions",
        setting="model.positions=learned",
        what="A vector is learned for each place and added to the embedding.",
        paper="Gehring et al. 2017, Convolutional Sequence to Sequence Learning, arXiv:1705.03122",
        notes="week4: transformers, 1.2 模型特点; Transformer Q&A, Q20",
        fused=True,
        exact="The same result with a cache and in any batch, but positions end at model.n_positions.",
    ),
    Part(
        group="Positions",
        setting="model.positions=rotary",
        what="Queries and keys are turned by an angle that grows with the position, so that their product depends on "
        "the distance alone.",
        paper="Su et al. 2021, RoFormer, arXiv:2104.09864",
        notes="week4: transformers, 1.2 模型特点",
        fused=True,
    ),
    Part(
        group="Positions",
        setting="model.positions=shaw",
        what="A learned vector for each distance is added to the key in the score and to the value in the sum.",
        paper="Shaw et al. 2018, Self-Attention with Relative Position Representations, arXiv:1803.02155",
        notes="Transformer Q&A, Q20 (相对位置编码, 1)",
        fused=False,
    ),
    Part(
        group="Positions",
        setting="model.positions=t5",
        what="Each head learns one number for each bucket of distances and adds it to the score.",
        paper="Raffel et al. 2020, T5, arXiv:1910.10683",
        notes="after Transformer Q&A, Q20 (相对位置编码, 2)",
        fused=True,
        exact="Only translating uses the fused kernel, which gives no gradient to what is added to the scores. "
        "The same result with a cache and in any batch.",
    ),
    Part(
        group="Positions",
        setting="model.positions=complex",
        what="A word is a wave: each pair of its features turns with the position, at a frequency that every word "
        "learns for itself.",
        paper="Wang et al. 2020, Encoding Word Order in Complex Embeddings, arXiv:1912.12333",
        notes="Transformer Q&A, Q20 (相对位置编码, 3: 复数域函数)",
        fused=True,
    ),
    # --- Scoring --------------------------------------------------------------------------------------------------
    Part(
        group="Scoring",
        setting="model.scoring=scaled-dot",
        what="Query times key, divided by √d_key so that the scores keep a variance of one and softmax keeps its "
        "gradient.",
        paper=VASWANI,
        notes="Transformer Q&A, Q3; Paper reading, 模型结构; 大模型基础, Attention机制",
        fused=True,
        default=True,
    ),
    Part(
        group="Scoring",
        setting="model.scoring=dot",
        what="Query times key without the division: what √d_key is good for can be seen by leaving it out.",
        paper="Luong et al. 2015, Effective Approaches to Attention-based Neural Machine Translation, arXiv:1508.04025",
        notes="week4: transformers, 2.4 Transformer Encoder-Decoder; after Transformer Q&A, Q3",
        fused=True,
    ),
    Part(
        group="Scoring",
        setting="model.scoring=additive",
        what="Query plus key through one hidden layer: addition instead of multiplication.",
        paper="Bahdanau et al. 2015, Neural Machine Translation by Jointly Learning to Align and Translate, "
        "arXiv:1409.0473",
        notes="Transformer Q&A, Q8",
        fused=False,
    ),
    Part(
        group="Scoring",
        setting="model.share_query_key=true",
        what="One matrix makes queries and keys: in self-attention fitting is mutual, and every word fits itself well.",
        paper="Kitaev et al. 2020, Reformer, arXiv:2001.04451",
        notes="Transformer Q&A, Q3 and Q7",
        fused=True,
    ),
    Part(
        group="Scoring",
        setting="model.span=full",
        what="Self-attention sees every position, however far.",
        paper=VASWANI,
        notes="Transformer Q&A, Q18; Paper reading, why self-attention?",
        fused=True,
        default=True,
    ),
    Part(
        group="Scoring",
        setting="model.span=window",
        what="Self-attention sees its neighbours only, so many on each side; farther words are reached through the "
        "layers.",
        paper="Beltagy et al. 2020, Longformer, arXiv:2004.05150",
        notes="after week4: transformers, 3.2 平方复杂度（self-attention）; Transformer, 假设与归纳偏置",
        fused=True,
    ),
    Part(
        group="Scoring",
        setting="model.span=chunk",
        what="Self-attention sees its own chunk and some before it, as a listener who cannot wait for the end must.",
        paper="Chen et al. 2020, Developing Real-time Streaming Transformer Transducer, arXiv:2010.11395",
        notes="Transformer Q&A, Q5",
        fused=True,
    ),
    # --- Heads ----------------------------------------------------------------------------------------------------
    Part(
        group="Heads",
        setting="model.heads=joined",
        what="What the heads found is put side by side and mixed by one matrix.",
        paper=VASWANI,
        notes="Transformer Q&A, Q2 and Q9; week4: transformers, 2.1 模型结构; Paper reading, 模型结构",
        fused=True,
        default=True,
    ),
    Part(
        group="Heads",
        setting="model.heads=branched",
        what="Each head goes through a small feed-forward network of its own, and learned weights say how much it "
        "counts: the Weighted Transformer.",
        paper="Ahmed et al. 2017, Weighted Transformer Network for Machine Translation, arXiv:1711.02132",
        notes="Transformer, 代码实战 (jayparks/transformer)",
        fused=True,
    ),
    Part(
        group="Heads",
        setting="model.n_key_heads=2",
        what="Grouped-query attention: several heads of queries share one head of keys and values, so the cache is "
        "smaller.",
        paper="Ainslie et al. 2023, GQA, arXiv:2305.13245",
        notes=f"after {SHARING}",
        fused=True,
    ),
    Part(
        group="Heads",
        setting="model.n_key_heads=1",
        what="Multi-query attention: one head of keys and values serves all heads of queries.",
        paper="Shazeer 2019, Fast Transformer Decoding: One Write-Head is All You Need, arXiv:1911.02150",
        notes=f"after {SHARING}",
        fused=True,
    ),
    Part(
        group="Heads",
        setting="model.value_rank=32",
        what="The matrix of the values is the product of two thin ones: a lower rank and, below half the full one, "
        "fewer parameters.",
        paper="Winata et al. 2020, Low-Rank Transformer, arXiv:1910.13923",
        notes="Transformer, 细节",
        fused=True,
    ),
    # --- Normalisation --------------------------------------------------------------------------------------------
    Part(
        group="Normalisation",
        setting="model.norm=layernorm",
        what="Each position's features are brought to mean 0 and variance 1, whatever the other positions are.",
        paper="Ba et al. 2016, Layer Normalization, arXiv:1607.06450",
        notes=f"week4: transformers, 2.2.2 Layer normalization; {LAYER_NORM}; 大模型基础, layer norm 而不是batch norm; "
        "Transformer Q&A, Q11",
        default=True,
    ),
    Part(
        group="Normalisation",
        setting="model.norm=rmsnorm",
        what="LayerNorm without subtracting the mean: only the length is normalised.",
        paper="Zhang & Sennrich 2019, Root Mean Square Layer Normalization, arXiv:1910.07467",
        notes=f"after {LAYER_NORM} (Layer Norm 的新研究)",
    ),
    Part(
        group="Normalisation",
        setting="model.norm=batchnorm",
        what="Each feature is brought to mean 0 and variance 1 over the batch: what vision uses, to see why text "
        "does not.",
        paper="Ioffe & Szegedy 2015, Batch Normalization, arXiv:1502.03167",
        notes=f"Transformer Q&A, Q11 and Q12; {LAYER_NORM}; 大模型基础, layer norm 而不是batch norm",
        exact="While training, a sentence depends on its batch, and a target position on later ones. Afterwards the "
        "running statistics are used: the same result with a cache and in any batch.",
    ),
    Part(
        group="Normalisation",
        setting="model.norm=scalenorm",
        what="Every vector is brought to one length, which is the only number learned.",
        paper="Nguyen & Salazar 2019, Transformers without Tears, arXiv:1910.05895",
        notes=f"after {LAYER_NORM} (Layer Norm 的新研究)",
    ),
    Part(
        group="Normalisation",
        setting="model.norm_place=post",
        what="The sum of input and sublayer is normalised: norm(x + sublayer(x)).",
        paper=VASWANI,
        notes="Transformer, residual connection; 大模型基础, Add & Norm; week4: transformers, "
        "3.1 训练不稳定性（Pre vs Post norm）",
        default=True,
    ),
    Part(
        group="Normalisation",
        setting="model.norm_place=pre",
        what="The sublayer's input is normalised, and nothing stands in the way of x: x + sublayer(norm(x)).",
        paper="Xiong et al. 2020, On Layer Normalization in the Transformer Architecture, arXiv:2002.04745",
        notes=f"week4: transformers, 3.1 训练不稳定性（Pre vs Post norm）; {LAYER_NORM}",
    ),
    Part(
        group="Normalisation",
        setting="model.norm_place=sandwich",
        what="A norm before the sublayer and one after it: x + norm(sublayer(norm(x))).",
        paper="Ding et al. 2021, CogView, arXiv:2105.13290",
        notes="after week4: transformers, 3.1 训练不稳定性（Pre vs Post norm）",
    ),
    Part(
        group="Normalisation",
        setting="model.embedding_norm=true",
        what="A norm on the embeddings, before the first layer, as BERT and BART have it.",
        paper="Devlin et al. 2019, BERT, arXiv:1810.04805",
        notes="after Transformer Q&A, Q16",
    ),
    Part(
        group="Normalisation",
        setting="model.embedding_scale=root",
        what="The words' vectors are multiplied by √d_model, so that they are as large as the positions added to them.",
        paper=VASWANI,
        notes=BEYOND,
        default=True,
    ),
    Part(
        group="Normalisation",
        setting="model.embedding_scale=one",
        what="The words' vectors are used as they are.",
        paper="Radford et al. 2019, Language Models are Unsupervised Multitask Learners (GPT-2)",
        notes=BEYOND,
    ),
    # --- Feed-forward ---------------------------------------------------------------------------------------------
    Part(
        group="Feed-forward",
        setting="model.activation=relu",
        what="max(0, x): the non-linearity that attention, a weighted sum, does not have.",
        paper=VASWANI,
        notes=f"week4: transformers, 1.2 模型特点; {FEED_FORWARD}; 大模型基础, FeedForward",
        default=True,
    ),
    Part(
        group="Feed-forward",
        setting="model.activation=gelu",
        what="x Φ(x), with the normal distribution's Φ: ReLU with a rounded corner.",
        paper="Hendrycks & Gimpel 2016, Gaussian Error Linear Units, arXiv:1606.08415",
        notes=FEED_FORWARD,
    ),
    Part(
        group="Feed-forward",
        setting="model.activation=gelu-tanh",
        what="GELU with Φ approximated by a tanh, as GPT-2 was trained with it.",
        paper="Hendrycks & Gimpel 2016, Gaussian Error Linear Units, arXiv:1606.08415",
        notes=f"after {FEED_FORWARD}",
    ),
    Part(
        group="Feed-forward",
        setting="model.activation=silu",
        what="x sigmoid(x), also called Swish: rounded as GELU is, and cheaper.",
        paper="Ramachandran et al. 2017, Searching for Activation Functions, arXiv:1710.05941",
        notes=FEED_FORWARD,
    ),
    Part(
        group="Feed-forward",
        setting="model.activation=swiglu",
        what="SiLU of one projection gates a second one; a third matrix, so choose d_ff smaller for the same size.",
        paper="Shazeer 2020, GLU Variants Improve Transformer, arXiv:2002.05202",
        notes=FEED_FORWARD,
    ),
    Part(
        group="Feed-forward",
        setting="model.activation=geglu",
        what="The same with GELU as the gate, as in T5 v1.1.",
        paper="Shazeer 2020, GLU Variants Improve Transformer, arXiv:2002.05202",
        notes=f"after {FEED_FORWARD}",
    ),
    Part(
        group="Feed-forward",
        setting="model.biases=false",
        what="The matrices of attention and feed-forward network are without biases, as in T5 and Llama.",
        paper="Raffel et al. 2020, T5, arXiv:1910.10683",
        notes=BEYOND,
    ),
    Part(
        group="Feed-forward",
        setting="model.activation=relu2",
        what="max(0, x)², found by an automatic search for better Transformers.",
        paper="So et al. 2021, Primer, arXiv:2109.08668",
        notes=f"after {FEED_FORWARD}",
    ),
    # --- Sharing --------------------------------------------------------------------------------------------------
    Part(
        group="Sharing",
        setting="model.share_layers=none",
        what="Every layer has weights of its own.",
        paper=VASWANI,
        notes="大模型基础, Transfomer架构",
        default=True,
    ),
    Part(
        group="Sharing",
        setting="model.share_layers=groups",
        what="Neighbouring layers share their weights, model.layers_per_group at a time.",
        paper="Takase & Kiyono 2021, Lessons on Parameter Sharing across Layers in Transformers, arXiv:2104.06022",
        notes=SHARING,
    ),
    Part(
        group="Sharing",
        setting="model.share_layers=all",
        what="One layer is applied again and again.",
        paper=f"Dehghani et al. 2019, Universal Transformers, arXiv:1807.03819; {ALBERT}",
        notes=SHARING,
    ),
    Part(
        group="Sharing",
        setting="model.share_encoder_decoder=true",
        what="A decoder layer has the self-attention and feed-forward network of the encoder layer beside it.",
        paper="Xia et al. 2019, Tied Transformers: Neural Machine Translation with Shared Encoder and Decoder, AAAI",
        notes=f"after {SHARING}",
    ),
    Part(
        group="Sharing",
        setting="model.tie_embeddings=all",
        what="Source, target and output use one matrix of words, which needs one vocabulary for both languages.",
        paper=PRESS,
        notes=f"after {SHARING}",
        default=True,
    ),
    Part(
        group="Sharing",
        setting="model.tie_embeddings=target",
        what="The decoder reads and writes with one matrix, the encoder reads with another.",
        paper=PRESS,
        notes=f"after {SHARING}",
    ),
    Part(
        group="Sharing",
        setting="model.tie_embeddings=inputs",
        what="Encoder and decoder read with one matrix, and the output has another, as in T5 v1.1.",
        paper="Raffel et al. 2020, T5, arXiv:1910.10683",
        notes=f"after {SHARING}",
    ),
    Part(
        group="Sharing",
        setting="model.tie_embeddings=none",
        what="Three matrices of words: for the source, the target, and the output.",
        paper=SUTSKEVER,
        notes=BEYOND,
    ),
    # --- Decoding -------------------------------------------------------------------------------------------------
    Part(
        group="Decoding",
        setting="--beam 5",
        what="Keeps the so many likeliest beginnings at every step, since the best one may start with a less likely "
        "word.",
        paper=SUTSKEVER,
        notes=BEAM,
        default=True,
    ),
    Part(
        group="Decoding",
        setting="--beam 1",
        what="Greedy search: takes the likeliest next piece, and never looks back.",
        paper=SUTSKEVER,
        notes=f"Transformer, Decoder - Autoregressive; {BEAM}",
    ),
    Part(
        group="Decoding",
        setting="--length-penalty average",
        what="Divides a log probability by the length, so that short translations do not win for being short.",
        paper="Cho et al. 2014, On the Properties of Neural Machine Translation, arXiv:1409.1259",
        notes=BEYOND,
        default=True,
    ),
    Part(
        group="Decoding",
        setting="--length-penalty gnmt",
        what="Divides it by a power of the length instead, which leaves short translations some of their advantage.",
        paper="Wu et al. 2016, Google's Neural Machine Translation System, arXiv:1609.08144",
        notes=BEYOND,
    ),
    Part(
        group="Decoding",
        setting="--diversity-groups 5",
        what="Groups of the beam avoid what the groups before them chose, so that the translations differ.",
        paper="Vijayakumar et al. 2018, Diverse Beam Search, arXiv:1610.02424",
        notes=f"after {BEAM}",
    ),
    Part(
        group="Decoding",
        setting="--no-repeat-ngram 3",
        what="No run of so many pieces comes twice, against translations that go round in circles.",
        paper="Paulus et al. 2018, A Deep Reinforced Model for Abstractive Summarization, arXiv:1705.04304",
        notes=BEYOND,
    ),
    Part(
        group="Decoding",
        setting="--sample",
        what="Draws each piece by its probability, for variety where there is no single right answer.",
        paper=HOLTZMAN,
        notes=f"after {BEAM}",
        exact="The same seed draws the same translations of a line, with a cache and in any batch.",
    ),
    Part(
        group="Decoding",
        setting="--sample --temperature 0.7",
        what="Sharpens (below 1) or flattens (above 1) the probabilities before drawing.",
        paper="Ackley et al. 1985, A Learning Algorithm for Boltzmann Machines, Cognitive Science 9",
        notes=BEYOND,
        exact="As --sample.",
    ),
    Part(
        group="Decoding",
        setting="--sample --top-k 10",
        what="Draws from the so many likeliest pieces only.",
        paper="Fan et al. 2018, Hierarchical Neural Story Generation, arXiv:1805.04833",
        notes=BEYOND,
        exact="As --sample.",
    ),
    Part(
        group="Decoding",
        setting="--sample --top-p 0.9",
        what="Draws from the fewest pieces that together have this probability, the nucleus.",
        paper=HOLTZMAN,
        notes=BEYOND,
        exact="As --sample.",
    ),
    Part(
        group="Decoding",
        setting="--prefix TEXT",
        what="The translation begins as given, and search continues it.",
        paper="Wuebker et al. 2016, Models and Inference for Prefix-Constrained Machine Translation, ACL P16-1007",
        notes=BEYOND,
    ),
    Part(
        group="Decoding",
        setting="--ensemble BUNDLE",
        what="Several models translate together: an ensemble, whose probabilities are averaged at every step.",
        paper=SUTSKEVER,
        notes=BEYOND,
    ),
    # --- Training -------------------------------------------------------------------------------------------------
    Part(
        group="Training",
        setting="training.label_smoothing=0.1",
        what="A share of the probability is spread over the vocabulary, so that the model does not become too sure.",
        paper="Szegedy et al. 2016, Rethinking the Inception Architecture for Computer Vision, arXiv:1512.00567",
        notes=f"{REGULARIZATION}; Transformer Q&A, Q24",
        default=True,
    ),
    Part(
        group="Training",
        setting="model.residual_dropout=0.1",
        what="Features of each sublayer's output, and of the embeddings, are set to zero at random while training.",
        paper="Srivastava et al. 2014, Dropout, JMLR 15",
        notes=REGULARIZATION,
        default=True,
    ),
    Part(
        group="Training",
        setting="model.attention_dropout=0.1",
        what="Attention weights are set to zero at random while training.",
        paper=VASWANI,
        notes=f"after {REGULARIZATION}",
        fused=False,
        exact="Only training leaves the fused kernel for it. The same result with a cache and in any batch.",
    ),
    Part(
        group="Training",
        setting="model.activation_dropout=0.1",
        what="Inner features of the feed-forward network are set to zero at random while training.",
        paper="Srivastava et al. 2014, Dropout, JMLR 15",
        notes="Transformer, Encoder - Self Attention",
    ),
    Part(
        group="Training",
        setting="model.word_dropout=0.1",
        what="Whole vectors of tokens are left out at random while training; their positions stay.",
        paper="Sennrich et al. 2016, Edinburgh Neural Machine Translation Systems for WMT 16, arXiv:1606.02891",
        notes=f"after {REGULARIZATION}",
    ),
    Part(
        group="Training",
        setting="model.layer_drop=0.1",
        what="Whole layers are left out of a training step at random.",
        paper="Fan et al. 2020, Reducing Transformer Depth on Demand with Structured Dropout, arXiv:1909.11556",
        notes=f"after {REGULARIZATION}",
    ),
    Part(
        group="Training",
        setting="training.bpe_dropout=0.1",
        what="Merges of BPE are left out at random, so that words are cut into other pieces in each epoch.",
        paper="Provilkov et al. 2020, BPE-Dropout: Simple and Effective Subword Regularization, arXiv:1910.13267",
        notes=BEYOND,
    ),
    Part(
        group="Training",
        setting="training.r_drop=5.0",
        what="Each batch is seen twice, with other dropout, and a difference between both predictions costs.",
        paper="Liang et al. 2021, R-Drop: Regularized Dropout for Neural Networks, arXiv:2106.14448",
        notes=BEYOND,
    ),
    Part(
        group="Training",
        setting="training.both_directions=20",
        what="In the first passes half of the batches are to be translated back.",
        paper="Ding, Wu & Tao 2021, Improving Neural Machine Translation by Bidirectional Training, arXiv:2109.07780",
        notes=BEYOND,
    ),
    Part(
        group="Training",
        setting="training.diversify=1",
        what="Helpers trained in both directions translate the pairs, which gives each side a second counterpart.",
        paper="Nguyen et al. 2020, Data Diversification: A Simple Strategy For Neural Machine Translation, "
        "arXiv:1911.01986",
        notes=BEYOND,
    ),
    Part(
        group="Training",
        setting="training.embeddings=related",
        what="Embeddings begin with vectors of which pieces stand near each other and in each other's translation.",
        paper="Levy, Goldberg & Dagan 2015, Improving Distributional Similarity with Lessons Learned from Word "
        "Embeddings, TACL 3",
        notes=BEYOND,
    ),
    Part(
        group="Training",
        setting="training.optimizer=muon",
        what="Matrices move by steps with equal singular values; all else by AdamW.",
        paper="Jordan et al. 2024, Muon; Liu et al. 2025, Muon is Scalable for LLM Training, arXiv:2502.16982",
        notes=BEYOND,
    ),
    Part(
        group="Training",
        setting="training.schedule=stable",
        what="The rate stays at its peak until the last part of the steps, in which it goes down to zero.",
        paper="Hu et al. 2024, MiniCPM, arXiv:2404.06395",
        notes=BEYOND,
    ),
    Part(
        group="Training",
        setting="model.init_by_depth=true",
        what="Matrices of later layers begin smaller, so that deep stacks train.",
        paper="Zhang et al. 2019, Improving Deep Transformer with Depth-Scaled Initialization, arXiv:1908.11365",
        notes=BEYOND,
    ),
    Part(
        group="Training",
        setting="training.clip_norm=1.0",
        what="A gradient that is longer than this is shortened to it.",
        paper="Pascanu et al. 2013, On the Difficulty of Training Recurrent Neural Networks, arXiv:1211.5063",
        notes="Transformer, 训练技巧 (梯度裁剪)",
    ),
    Part(
        group="Training",
        setting="training.average=5",
        what="The weights of the last checkpoints are averaged at the end, if that scores better on validation.",
        paper=VASWANI,
        notes=BEYOND,
        default=True,
    ),
    Part(
        group="Training",
        setting="training.ema=0.999",
        what="A moving average of the weights is kept while training, and is what is validated and saved.",
        paper="Polyak & Juditsky 1992, Acceleration of Stochastic Approximation by Averaging, SIAM J. Control Optim.",
        notes=BEYOND,
    ),
    Part(
        group="Training",
        setting="training.tensorboard=true",
        what="Loss, learning rate and scores are also written as curves for TensorBoard.",
        paper="Abadi et al. 2016, TensorFlow, arXiv:1603.04467",
        notes=BEYOND,
    ),
)
