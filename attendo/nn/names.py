"""What the parts are called of which there are several. Without torch, like the settings that use the names."""

from typing import Literal

ActivationName = Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu", "geglu", "relu2"]
Layout = Literal["interleaved", "halves", "fairseq"]  # of sinusoids
NormName = Literal["layernorm", "rmsnorm", "batchnorm", "scalenorm"]
NormPlace = Literal["post", "pre", "sandwich"]
