"""Signs that a translation may have gone wrong."""

from attendo.text.cautions import Caution, copied, odd_length, repetition


def kind(caution: Caution | None) -> str | None:
    return caution.kind if caution else None


def test_repetition():
    assert kind(repetition("A man.", "Ein Mann ein Mann ein Mann ein Mann")) == "repetition"
    assert repetition("A man.", "sehr sehr sehr gut") == Caution(
        "repetition", "'sehr' comes 3 times or more one after the other"
    )
    assert repetition("A man.", "sehr sehr gut") is None
    assert repetition("no no no!", "nein nein nein!") is None
    assert repetition("A man.", "... ... ...") is None
    assert kind(repetition("一个人。", "男男男")) == "repetition"
    assert repetition("", "") is None


def test_odd_length():
    assert odd_length(10, 11) is None
    assert odd_length(1, 10) is None
    assert kind(odd_length(5, 40)) == "length"
    assert kind(odd_length(40, 5)) == "length"


def test_copied():
    assert kind(copied("A man rides a bicycle.", "a man rides a bicycle.")) == "copied"
    assert copied("Berlin", "Berlin") is None
    assert copied("A man rides a bicycle.", "Ein Mann fährt Rad.") is None
