import pytest
import torch

from attendo.errors import BundleError, ConfigError
from attendo.inspection.parameters import bundle_facts, preset_facts
from attendo.models.settings import TransformerConfig
from attendo.models.transformer import build


def test_the_parts_add_up_to_the_total():
    for preset in ("tiny", "small", "base", "big"):
        parameters = preset_facts(preset, 1009, [])["parameters"]
        total = parameters.pop("total")
        assert total == sum(parameters.values()) > 0


def test_the_counts_are_those_of_a_model_that_is_built():
    facts = preset_facts("tiny", 307, ["model.d_model=20", "model.n_heads=5", "model.d_ff=23", "model.d_key=3"])
    assert facts["model"]["d_key"] == 3
    model = build(TransformerConfig(**facts["model"]))
    assert facts["parameters"]["total"] == sum(parameter.numel() for parameter in model.parameters())
    assert facts["parameters"]["encoder.embedding"] == 307 * 20
    assert facts["parameters"]["encoder.feed_forward"] == 4 * (2 * 20 * 23 + 23 + 20)


def test_nothing_is_allocated_for_a_preset(monkeypatch):
    made: list[torch.device] = []
    empty = torch.empty

    def record(*arguments, **options):
        tensor = empty(*arguments, **options)
        made.append(tensor.device)
        return tensor

    monkeypatch.setattr(torch, "empty", record)
    preset_facts("big", 37_000, [])
    assert made
    assert {device.type for device in made} == {"meta"}


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("model.d_modell=3", "unknown setting model.d_modell. Did you mean model.d_model"),
        ("training.steps=3", "unknown setting training"),
        ("model.d_model=x", "model.d_model = 'x': must be a whole number"),
        ("model.d_model=-1", "model.d_model = -1"),
        ("model.n_heads=7", "model.d_model = 512: must be a multiple of n_heads"),
        ("d_model", "must look like key=value"),
    ],
)
def test_wrong_settings_name_the_key(assignment, words):
    with pytest.raises(ConfigError, match=words):
        preset_facts("base", 41_000, [assignment])


def test_a_bundle_tells_what_it_is(trained):
    facts = bundle_facts(str(trained.path))
    assert facts["bundle"] == str(trained.path)
    assert facts["languages"] == ["en", "de"]
    assert facts["parameters"]["total"] == sum(tensor.numel() for tensor in trained.bundle.weights().values())
    assert facts["data"]["pairs"]["read"] == 600
    assert facts["config"]["training"]["steps"] == 420
    assert facts["scores"]["validation"]["bleu"]["signature"]
    assert facts["checkpoints"] == [140, 280, 420]
    assert facts["machine"]["torch"] == torch.__version__


def test_no_bundle_no_facts(tmp_path):
    with pytest.raises(BundleError, match="there is no folder"):
        bundle_facts(str(tmp_path / "nowhere"))
