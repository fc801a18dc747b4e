"""The names of labels, as config.json has them."""

from collections.abc import Mapping, Sequence
from typing import Any

from attendo.errors import ForeignError
from attendo.interop.folder import Folder


def their_labels(folder: Folder) -> list[str]:
    """The labels in the order of their numbers, at least two."""
    try:
        found = labels_in(folder.config)
    except (AttributeError, KeyError, ValueError):
        raise ForeignError(
            f"{folder.path / 'config.json'}: id2label must number its labels 0, 1, 2, … and names them otherwise."
        ) from None
    if len(found) < 2:
        raise ForeignError(
            f"{folder.path / 'config.json'} has one label: the model gives a number, and attendo's tell labels apart."
        )
    return found


def labels_in(config: Mapping[str, Any]) -> list[str]:
    """The labels that a config.json names; two, if it does not say. Of two that are called alike, as two kinds of
    cranes are in ImageNet, the second has its number behind its name."""
    names = config.get("id2label", {"0": "LABEL_0", "1": "LABEL_1"})
    numbered = {int(number): str(name) for number, name in names.items()}
    found: list[str] = []
    for number in range(len(numbered)):
        name = numbered[number]
        found.append(f"{name} ({number})" if name in found else name)
    return found


def with_n_labels(folder: Folder) -> dict[str, Any]:
    """What config.json says, and how many labels those are, which are told apart and not given together."""
    kind = folder.config.get("problem_type")
    if kind not in (None, "single_label_classification"):
        raise ForeignError(
            f"{folder.path / 'config.json'}: problem_type = {kind!r} is something that attendo has not: it tells one "
            "label of each text or picture."
        )
    return {**folder.config, "num_labels": len(their_labels(folder))}


def label_names(labels: Sequence[str]) -> dict[str, Any]:
    """What config.json says of the labels."""
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }
