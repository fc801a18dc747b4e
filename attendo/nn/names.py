"""What the parts are called of which there are several. Without torch, like the settings that use the names."""

from typing import Literal

ActivationName = Literal["relu", "gelu", "gelu-tanh", "silu", "swiglu", "geglu", "relu2"]
Layout = Literal["interleaved", "halves", "fairseq"]  # of sinusoids
NormName = Literal["layernorm", "rmsnorm", "batchnorm", "scalenorm"]
# What keeps each norm from dividing by zero, unless it is told.
USUAL_EPS: dict[NormName, float] = {"layernorm": 1e-5, "rmsnorm": 1e-6, "batchnorm": 1e-5, "scalenorm": 1e-5}
NormPlace = Literal["post", "pre", "sandwich"]
