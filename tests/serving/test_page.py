"""The web page in a real Chromium: what a person does there, and that it keeps to its rules."""

import copy
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys as Keyboard

from attendo.config import to_dict
from attendo.models.settings import ConvolutionalConfig, RecurrentConfig
from attendo.serving.keys import Key, Keys
from attendo.serving.limits import Limits
from tests.serving.browser import Page, browser
from tests.serving.running import running

VIEWS = ("translate", "inside", "run")
AXE = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
HOSTILE = '<img src=x onerror="document.title = 1"> one.'

# For Page.answer: a refusal, and a document of which only the beginning comes.
REFUSED = """
    const said = {{ error: "no", limit: "{limit}", value: 61 }};
    return new Response(JSON.stringify(said), {{ status: {status}, headers: {{ "retry-after": "17" }} }});
"""
BEGUN = """
    const begun = new TextEncoder().encode('event: progress\\ndata: {"done": 1, "of": 3}\\n\\n');
    const stream = new ReadableStream({ start: (to) => { to.enqueue(begun); window.stream = to; } });
    return new Response(stream);
"""


@pytest.fixture(scope="module")
def opened(tiny, tmp_path_factory) -> Iterator[Page]:
    """One server and one browser for all."""
    folder = tmp_path_factory.mktemp("browser")
    backwards = copy.copy(tiny)
    backwards.languages = ("de", "en")
    with (
        running({"numerals": tiny, "backwards": backwards}, limits=Limits(characters=2000)) as server,
        browser(folder) as driver,
    ):
        yield Page(driver, server.url, folder / "downloads")


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    """As on the first visit; and whatever happened, the browser had nothing to complain about."""
    opened.begin()
    yield opened
    assert opened.console() == []


def test_a_translation_comes_as_one_types(page):
    assert page.text("#source-name") == "English"
    assert page.text("#target-name") == "German"
    page.translate("five green.", "fünf grün.")
    assert [word.text for word in page.all("#target .word")] == ["fünf", "grün"]
    assert page.all("#target .word")[0].get_attribute("title").endswith("sure")
    page.one("#source").send_keys(" one two.")
    page.until_text("#target", "fünf grün. eins zwei.")
    page.one("#clear").click()
    page.until(lambda: page.text("#target") == "")


def test_an_answer_that_comes_too_late_is_never_shown(page):
    page.script("""
        const fetched = window.fetch;
        window.held = [];
        window.fetch = (path, options) => {
          if (path !== "v1/translate" || JSON.parse(options.body).text !== "one.") return fetched(path, options);
          const late = { ...options, signal: undefined };
          return new Promise((resolve) => held.push(() => fetched(path, late).then(resolve)));
        };
    """)
    page.type("one.")
    page.until(lambda: page.script("return held.length"))
    page.translate("two.", "zwei.")
    page.driver.execute_async_script("""
        const done = arguments[0];
        held[0]().then(() => setTimeout(done, 50));
    """)
    assert page.text("#target") == "zwei."


@pytest.mark.parametrize(
    ("text", "pieces", "language", "words", "sentences"),
    [
        (
            "Ein Mann, ja.\n\n  Er lacht.",
            "▁Ein ▁Ma nn , ▁ja . / ▁Er ▁lacht . /",
            "de",
            [("Ein", 0, 0), ("Mann", 0, 1), ("ja", 0, 4), ("Er", 1, 7), ("lacht", 1, 8)],
            ["Ein Mann, ja.", "Er lacht."],
        ),
        (
            "Café ☂. Da.",
            "▁Caf <0xC3> <0xA9> ▁ <0xE2> . / ▁Da . /",
            "de",
            [("Café", 0, 0), ("Da", 1, 7)],
            ["Café ☂.", "Da."],
        ),
        ("auf der Bank", "auf der Ban ##k /", "de", [("auf", 0, 0), ("der", 0, 1), ("Bank", 0, 2)], ["auf der Bank"]),
        ("我们喜欢你。", "▁我们 喜 欢 你 。 /", "zh", [("我们", 0, 0), ("喜欢", 0, 2), ("你", 0, 3)], ["我们喜欢你。"]),
        (
            "<b>so</b> oft",
            "▁so ▁oft /",
            "de",
            [("b", 0, None), ("so", 0, 0), ("b", 0, None), ("oft", 0, 1)],
            ["<b>so</b> oft"],
        ),
        ("", "", "de", [], []),
    ],
    ids=["sentences", "bytes", "wordpiece", "chinese", "markup", "nothing"],
)
def test_words_are_found_in_a_translation(page, text, pieces, language, words, sentences):
    """Confidences count down, so that a word's is that of its last piece."""
    given = [
        {"piece": "" if piece == "/" else piece, "confidence": 1 - number / 100}
        for number, piece in enumerate(pieces.split())
    ]
    found = page.driver.execute_async_script(
        "const done = arguments[3]; import('/page/target.js').then(({placed}) => done(placed(...arguments)))",
        text,
        given,
        language,
    )
    assert [text[one["start"] : one["end"]] for one in found["sentences"]] == sentences
    assert [(one["text"], one["sentence"]) for one in found["words"]] == [word[:2] for word in words]
    for one, (word, _, first) in zip(found["words"], words, strict=True):
        assert text[one["start"] :].startswith(word)
        if first is None:
            continue
        assert one["confidence"] <= 1 - first / 100


def test_another_word_is_chosen_and_what_follows_is_translated_again(page):
    page.translate("six. five green.", "sechs. fünf grün.")
    page.all("#target .word")[1].click()
    items = page.until(lambda: page.all("#menu [role=menuitem]"))
    assert 2 <= len(items) <= 5
    assert items[0].text.startswith("fünf")
    assert page.focused() == items[0]
    page.press(Keyboard.ARROW_DOWN)
    other = page.focused().find_element("css selector", "b").text
    assert other != "fünf"
    page.press(Keyboard.ENTER)
    page.until_text("#target", f"sechs. {other}")
    assert page.text("#target").startswith(f"sechs. {other}")
    assert page.focused().text == other.rstrip(".")
    assert not page.one("#menu").is_displayed()


def test_an_alternative_may_begin_with_a_comma(page):
    page.translate("five green.", "fünf grün.")
    page.answer(
        "v1/alternatives",
        """
        const pieces = ["▁fünf", ",", "▁eins", ".", ""].map((piece) => ({ piece, confidence: 1 }));
        const translation = { text: "fünf, eins.", pieces };
        return new Response(JSON.stringify({ alternatives: [{ probability: 0.5, translation }] }));
        """,
    )
    page.all("#target .word")[1].click()
    (item,) = page.until(lambda: page.all("#menu [role=menuitem]"))
    assert page.text("#menu [role=menuitem] b") == ","
    assert page.text("#menu [role=menuitem] .quiet") == " eins."
    item.click()
    assert page.text("#target") == "fünf, eins."


def test_a_menu_that_is_still_empty_can_be_closed(page):
    page.translate("five green.", "fünf grün.")
    page.answer("v1/alternatives", "return new Promise(() => {});")
    page.script("arguments[0].focus()", page.all("#target .word")[1])
    page.press(Keyboard.ENTER)
    page.until(lambda: page.one("#menu").is_displayed())
    page.press(Keyboard.ESCAPE)
    assert not page.one("#menu").is_displayed()
    assert page.focused().text == "grün"


def test_what_was_said_of_a_translation_goes_with_it(page):
    page.answer(
        "v1/translate",
        """
        const answer = await (await fetched(path, options)).json();
        answer.translations[0].warnings = [{ kind: "copied", message: "as it was" }];
        answer.translations[0].terms = [{ source: "green", target: "grün", used: true }];
        return new Response(JSON.stringify(answer));
        """,
    )
    page.translate("five green.", "fünf grün.")
    page.until_text("#told", "The source was copied")
    page.all("#target .word")[1].click()
    items = page.until(lambda: page.all("#menu [role=menuitem]"))
    items[1].click()
    page.until_text("#told", "Translated again from")
    assert "copied" not in page.text("#told")
    assert "“green” did not become “grün”" in page.text("#told")


@pytest.mark.parametrize("anchor", ["main", "toString", ""])
def test_an_address_without_a_view_opens_the_first(page, anchor):
    page.driver.get(f"{page.url}/?{anchor}#{anchor}")
    page.until(lambda: page.one("#translate").is_displayed())
    page.until(lambda: page.text("#source-name") == "English")


def test_skipping_to_the_content_leaves_the_view(page):
    page.open("inside")
    page.script("arguments[0].focus()", page.one(".skip"))
    page.press(Keyboard.ENTER)
    page.until(lambda: page.driver.current_url.endswith("#main"))
    assert page.one("#inside").is_displayed()
    page.one("#language").click()
    assert page.driver.title == "看看内部 – attendo"


def test_the_keyboard_is_enough(page):
    page.translate("five green.", "fünf grün.")
    page.script("arguments[0].focus()", page.all("#target .word")[0])
    page.press(Keyboard.ARROW_RIGHT)
    assert page.focused().text == "grün"
    page.press(Keyboard.ENTER)
    page.until(lambda: page.all("#menu [role=menuitem]"))
    page.press(Keyboard.ESCAPE)
    assert page.focused().text == "grün"
    page.press_with(Keyboard.ALT, "2")
    page.until(lambda: page.one("#inside").is_displayed())
    page.script("arguments[0].focus()", page.one("#tab-inside"))
    page.press(Keyboard.ARROW_RIGHT)
    page.until(lambda: page.one("#run").is_displayed())
    assert page.driver.current_url.endswith("#run")


def test_a_translation_is_copied(page):
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    )
    page.translate("five green.", "fünf grün.")
    page.script("""
        const button = document.getElementById("copy");
        window.said = [];
        new MutationObserver(() => said.push(button.textContent)).observe(button, { childList: true });
    """)
    page.one("#copy").click()
    page.until(lambda: page.script("return said") == ["Copied", "Copy"])
    assert page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])") == "fünf grün."


def test_the_key_for_copying_is_none_that_types(page):
    page.translate("five green.", "fünf grün.")
    page.script("""
        window.copied = [];
        navigator.clipboard.writeText = async (text) => copied.push(text);
    """)
    press = "return dispatchEvent(new KeyboardEvent('keydown', {code: 'KeyC', cancelable: true, ...arguments[0]}))"
    assert page.script(press, {"altKey": True, "ctrlKey": True})  # AltGr+C: what it types is left alone
    assert page.script("return copied") == []
    assert not page.script(press, {"altKey": True})
    assert page.script("return copied") == ["fünf grün."]


def test_markup_in_a_text_is_text(page):
    page.translate(HOSTILE, "<img src=x onerror=")
    page.one("#term-source").send_keys("<b>one</b>")
    page.one("#term-target").send_keys("<i>eins</i>")
    page.one("#add-term button").click()
    assert page.text("#terms").startswith("<b>one</b>→<i>eins</i>")
    page.show("inside")
    page.until(lambda: page.all(".heat tbody td"))
    assert page.one("#inside-source").get_property("value") == HOSTILE
    assert not page.all("main script, main img, #terms b, #terms i")
    assert page.driver.title == "Look inside – attendo"


def test_a_glossary_is_used_and_remembered(page, tiny):
    page.one("#term-source").send_keys("green")
    page.one("#term-target").send_keys("Cologne")
    page.one("#term-target").send_keys(Keyboard.ENTER)
    expected = tiny.translate("seven green.", glossary={"green": "Cologne"}).text
    assert "Cologne" in expected
    page.translate("seven green.", expected)
    page.until_text("#told", "“green” became “Cologne”")
    page.open()
    assert page.text("#terms").startswith("green→Cologne")
    page.one("#terms button").click()
    page.translate("seven green.", "sieben grün.")


@pytest.mark.parametrize("name", ["notes.md", "<b>.md"])
def test_a_file_is_dropped_and_comes_back_translated(page, name):
    content = "\ufeff# one two.\r\n\r\n" + "* five green.\r\n" * 31
    page.drop(name, content.encode())
    link = page.until(lambda: page.all("#document-told a"))[0]
    assert link.text == f"Download {name.replace('.md', '.de.md')}"
    assert "32 passages" in page.text("#document-told")
    if name == "notes.md":
        link.click()
        assert page.downloaded("notes.de.md").decode("utf-8") == "\ufeff# eins zwei.\r\n\r\n" + "* fünf grün.\r\n" * 31


def test_a_file_that_is_no_text(page):
    page.drop("a.txt", b"\xff\xfe\0")
    page.until_text("#document-told", "a.txt is not UTF-8 text")


def test_a_file_that_is_too_large_is_not_read(page):
    page.answer("v1/document", "")
    page.drop("a.txt", b"a" * 1_000_001)
    page.until_text("#document-told", "Too large: this server takes 1,000,000 bytes at once.")
    assert page.script("return asked.length") == 0


def test_of_two_files_the_last_is_translated(page):
    page.script("""
        const read = File.prototype.arrayBuffer;
        File.prototype.arrayBuffer = function () {
          if (this.name === "fast.txt") return read.call(this);
          return new Promise((resolve) => (window.release = () => resolve(read.call(this))));
        };
    """)
    page.answer("v1/document", "return fetched(path, options);")
    page.drop("slow.txt", b"one.")
    page.drop("fast.txt", b"two.")
    page.until_text("#document-told", "Download fast.de.txt")
    page.driver.execute_async_script("release(); setTimeout(arguments[0], 50)")
    assert "Download fast.de.txt" in page.text("#document-told")
    assert page.script("return asked.length") == 1


def test_a_document_that_breaks_off(page):
    page.answer("v1/document", BEGUN)
    page.drop("a.txt", b"one.")
    page.until_text("#document-told", "1 of 3 passages")
    page.script("stream.error(new TypeError('network error'))")
    page.until(lambda: page.text("#document-told") == "The server cannot be reached. Is it still running?")


def test_a_document_is_cancelled(page):
    page.answer("v1/document", BEGUN)
    page.drop("a.txt", b"one.")
    page.until_text("#document-told", "1 of 3 passages")
    page.one("#document-told button").click()
    assert page.text("#document-told") == ""
    assert page.script("return asked[0].signal.aborted")


def test_problems_are_told_in_words(page):
    page.script("arguments[0].value = 'one '.repeat(600)", page.one("#source"))
    page.one("#source").send_keys("x")
    page.until_text("#told", "Too long: this server takes 2,000 characters at once.")
    assert "422" in page.console()[0]
    page.answer("v1/translate", REFUSED.format(status=503, limit="queue"))
    page.type("one.")
    page.until(lambda: page.text("#told") == "The server is busy. Trying again in 17 s.")
    page.script("window.fetch = async () => { throw new TypeError() }")
    page.type("two.")
    page.until_text("#told", "The server cannot be reached.")


def test_after_an_error_no_old_translation_is_left(page):
    page.translate("five green.", "fünf grün.")
    page.answer("v1/translate", REFUSED.format(status=422, limit="sentences"))
    page.type("one.")
    page.until_text("#told", "Too long: this server takes 61 sentences at once.")
    assert page.text("#target") == ""
    assert not page.one("#copy").is_displayed()
    assert not page.one("#target").get_attribute("aria-busy")


@pytest.mark.parametrize(("status", "limit"), [(429, "requests_per_minute"), (503, "requests")])
def test_while_the_server_is_busy_the_old_translation_is_marked(page, status, limit):
    page.translate("five green.", "fünf grün.")
    page.answer("v1/translate", REFUSED.format(status=status, limit=limit))
    page.type("one.")
    page.until_text("#told", "Trying again in 17 s.")
    assert page.text("#target") == "fünf grün."
    assert page.one("#target").get_attribute("aria-busy") == "true"
    page.all("#target .word")[0].click()
    assert not page.one("#menu").is_displayed()


def test_a_busy_server_is_asked_less_and_less(page):
    page.script("""
        const later = window.setTimeout;
        window.delays = [];
        window.setTimeout = (then, delay) => {
          if (delay < 1000) return later(then, delay);
          delays.push(delay / 1000);
          return delays.length < 7 ? later(then, 0) : null;
        };
    """)
    page.answer("v1/translate", "throw new TypeError();")
    page.type("one.")
    page.until(lambda: page.script("return delays") == [3, 6, 12, 24, 48, 60, 60])
    page.answer("v1/translate", REFUSED.format(status=503, limit="seconds"))
    page.type("two.")
    page.until_text("#told", "It would take more than 61 seconds")
    assert len(page.script("return delays")) == 7
    assert "Trying again" not in page.text("#told")


def test_nothing_is_promised_that_is_not_done(page):
    page.translate("five green.", "fünf grün.")
    for path in ("v1/alternatives", "v1/attention", "v1/document"):
        page.answer(path, REFUSED.format(status=503, limit="queue"))
    page.all("#target .word")[0].click()
    page.until(lambda: page.text("#menu .notice") == "The server is busy.")
    page.drop("a.txt", b"one.")
    page.until(lambda: page.text("#document-told") == "The server is busy.")
    page.show("inside")
    page.until(lambda: page.text("#inside-told") == "The server is busy.")


def test_every_head_can_be_looked_at(page):
    page.translate("five green.", "fünf grün.")
    page.show("inside")
    page.until(lambda: page.all(".heat tbody td"))
    target = page.all("#inside-shown p.text .word")[1]
    target.click()
    page.until_text("#inside-shown", "“grün.” looks at:")
    assert target.get_attribute("aria-pressed") == "true"
    assert len(page.all(".lit")) == 2
    assert max(map(page.weight, page.all(".lit"))) > 0
    heads = page.all("button.head")
    assert len(heads) == 3 * 2  # a layer of two heads: cross, encoder, decoder
    heads[0].click()
    page.until(lambda: page.one("#head").is_displayed())
    assert page.text("#head-name") == "Cross: translation to source, layer 1, head 1"
    rows = page.all("#head .heat tbody tr")
    for row in rows:
        assert sum(map(page.weight, row.find_elements("css selector", "td"))) == pytest.approx(1, abs=0.01)
    page.one("#head-after").click()
    assert page.text("#head-name").endswith("layer 1, head 2")
    page.one("#head-off").click()
    page.until_text("#inside-told", "Without Cross: translation to source, layer 1, head 2.")
    assert page.focused().get_attribute("id") == "cross.1.1"  # from where it was enlarged
    page.one("#switch-on").send_keys(Keyboard.ENTER)
    page.until(lambda: page.text("#inside-told") == "")
    assert page.focused().get_attribute("id") == "main"


def test_every_weight_can_be_read_without_a_mouse(page):
    page.translate("five green.", "fünf grün.")
    page.show("inside")
    page.until(lambda: page.all(".heat tbody td"))

    def read(inside: str, said: str) -> None:
        names = [one.text for one in page.all(f"{inside} thead th")]
        rows = page.all(f"{inside} tbody tr")
        page.script("arguments[0].focus()", page.one(f"{inside} tbody td"))
        page.press(Keyboard.ARROW_RIGHT, Keyboard.ARROW_DOWN)
        cell = rows[1].find_elements("css selector", "td")[1]
        assert page.focused() == cell
        row, weight = rows[1].find_element("css selector", "th").text, cell.get_attribute("aria-label")
        assert page.text(said) == f"Row “{row}” gives {weight} to “{names[1]}”."

    read("#inside-shown .heat", "#inside-shown .scrolled:has(.heat) + p")
    page.one("button.head").click()
    read("#head .heat", "#head-about")


def test_looking_inside_a_translation_that_the_search_alone_does_not_find(page, tiny):
    page.one("#term-source").send_keys("green")
    page.one("#term-target").send_keys("Cologne", Keyboard.ENTER)
    expected = tiny.translate("seven green.", glossary={"green": "Cologne"}).text
    page.translate("one.\nseven green.", f"eins.\n{expected}")
    page.show("inside")
    page.until(lambda: page.all("#sentence option"))
    assert [one.text for one in page.all("#sentence option")] == ["1. one.", "2. seven green."]
    assert not page.all("#inside-told .notice")
    page.script("arguments[0].focus()", page.one("#sentence"))
    page.press(Keyboard.ARROW_DOWN)
    page.until_text("#inside-told", "found “sieben grün.”.")
    assert page.focused().get_attribute("id") == "sentence"
    assert [one.text for one in page.all("#inside-shown p.text .word")] == expected.split()
    assert page.all(".tree .edge.best")
    page.all("button.head")[0].click()
    page.one("#head-off").click()
    page.until_text("#inside-told", "Without Cross")
    assert "The search alone" not in page.text("#inside-told")


def test_looking_inside_after_a_word_was_chosen(page):
    page.translate("five green.", "fünf grün.")
    page.show("inside")
    page.until(lambda: page.all("#inside-shown p.text .word"))
    page.show("translate")
    page.all("#target .word")[0].click()
    page.until(lambda: page.all("#menu [role=menuitem]"))[1].click()
    chosen = page.text("#target")
    assert not chosen.startswith("fünf")
    page.show("inside")
    page.until_text("#inside-told", "found “fünf grün.”")
    assert " ".join(one.text for one in page.all("#inside-shown p.text .word")) == chosen
    page.type("two.", into="#inside-source")
    page.press(Keyboard.ENTER)
    page.until(lambda: page.text("#inside-shown p.text .word") == "zwei.")
    page.show("translate")
    page.show("inside")
    assert page.one("#inside-source").get_property("value") == "two."  # what was written there is not lost


def test_the_search_and_the_pieces_are_shown(page):
    page.translate("five green. one.", "fünf grün. eins.")
    page.show("inside")
    page.until(lambda: page.all(".tree .edge.best"))
    few = len(page.all(".tree .node"))
    page.one(".check input").click()
    page.until(lambda: len(page.all(".tree .node")) > few)
    assert "Second was" in page.text("#inside-shown")
    rows = page.all(".tokens tbody tr")
    assert all(len(row.find_elements("css selector", ".chip")) == 5 for row in rows)
    assert len(page.all(".tokens .taken")) >= len(rows) - 1
    page.all("#sentence option")[1].click()
    page.until(lambda: page.text("#inside-shown p.text .word") == "eins.")


def test_the_run_is_shown(page, trained):
    page.show("run")
    page.until(lambda: page.all("#run .chart"))
    assert len(page.all("#run .chart")) == 3
    assert all(chart.find_elements("css selector", ".line") for chart in page.all("#run .chart"))
    shown = page.text("#run")
    scores = json.loads((trained.path / "scores.json").read_text(encoding="utf-8"))
    assert scores["validation"]["bleu"]["signature"] in shown
    assert f"{scores['validation']['chrf']['score']:.2f}" in shown
    assert "train.en" in shown
    assert str(trained.path.parent) not in shown
    assert page.all("#run .samples tbody tr")


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (RecurrentConfig(source_vocab_size=31, target_vocab_size=31, d_model=22), ("22", "1 + 1, 1 heads", "lstm")),
        (ConvolutionalConfig(source_vocab_size=31, target_vocab_size=31, d_model=22), ("22", "4 + 3", "sees 3")),
    ],
    ids=["recurrent", "convolutional"],
)
def test_the_run_of_another_kind_of_model(page, model, told):
    page.answer(
        "v1/run?model=numerals",
        """
        const answer = await (await fetched(path, options)).json();
        answer.settings.model = MODEL;
        return new Response(JSON.stringify(answer));
        """.replace("MODEL", json.dumps(to_dict(model))),
    )
    page.show("run")
    page.until(lambda: page.all("#run .facts"))
    shown = page.text("#run")
    assert "undefined" not in shown
    assert all(one in shown for one in told)


def test_an_error_about_the_model_before_is_not_told(page):
    page.answer("v1/run?model=numerals", "return new Promise((_, reject) => (window.fail = reject));")
    page.show("run")
    page.until(lambda: page.script("return asked.length"))
    page.all("#model option")[1].click()
    page.until(lambda: page.all("#run .chart"))
    page.driver.execute_async_script("fail(new TypeError()); setTimeout(arguments[0], 50)")
    assert page.text("#run-told") == ""


def test_another_model(page):
    options = page.all("#model option")
    assert [one.text for one in options] == ["English → German · numerals", "German → English · backwards"]
    options[1].click()
    page.until(lambda: page.text("#source-name") == "German")
    page.open()
    assert page.text("#source-name") == "German"


def test_language_and_colours_are_switched_and_remembered(page):
    page.one("#language").click()
    assert page.text("#tab-inside") == "看看内部"
    assert page.one("html").get_attribute("lang") == "zh-CN"
    assert page.text("#source-name") == "英语"

    def background() -> Any:
        return page.script("return getComputedStyle(document.body).backgroundColor")

    page.one("#theme").click()
    light = background()
    page.one("#theme").click()
    dark = background()
    assert light == "rgb(246, 247, 249)"
    assert dark == "rgb(18, 21, 27)"
    page.open()
    assert background() == dark
    assert page.text("#tab-inside") == "看看内部"
    page.one("#language").click()
    assert page.one("html").get_attribute("lang") == "en"


def test_a_key_is_asked_for(page, tiny):
    with running({"numerals": tiny}, keys=Keys([Key.of("sesame")])) as server:
        other = Page(page.driver, server.url, page.downloads)
        other.open()
        other.answer("v1/translate", "return fetched(path, options);")
        other.type("one.")
        other.until(lambda: other.one("#key").is_displayed())
        other.one("#key-given").send_keys("wrong", Keyboard.ENTER)
        other.until(lambda: other.one("#key").is_displayed() and not other.one("#key-given").get_property("value"))
        for times, leave in enumerate((lambda: other.press(Keyboard.ESCAPE), other.all("#key button")[1].click), 2):
            other.one("#key-given").send_keys("wrong")
            leave()
            other.driver.execute_async_script("setTimeout(arguments[0], 50)")
            assert other.script("return asked.length") == times  # and not once more with what was typed
            assert not other.one("#key").is_displayed()
            assert other.text("#told") == "This server needs an API key, or another one."
            other.one("#source").send_keys(Keyboard.CONTROL, Keyboard.ENTER)
            other.until(lambda: other.one("#key").is_displayed())
        other.one("#key-given").send_keys("sesame", Keyboard.ENTER)
        other.until_text("#target", "eins.")
        assert not other.one("#key").is_displayed()
        assert other.script("return localStorage.length") == 0
        assert all("401" in complaint for complaint in other.console())


def test_it_fits_a_phone(page):
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    )
    try:
        page.translate("five green.", "fünf grün.")
        for view in VIEWS:
            page.show(view)
            page.until(lambda view=view: page.all({"inside": ".heat", "run": ".chart"}.get(view, "#target .word")))
            assert page.script("return document.documentElement.scrollWidth") <= 390, view
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_rules_of_accessibility_hold(page, theme):
    while page.one("html").get_attribute("data-theme") != theme:
        page.one("#theme").click()
    page.translate("five green.", "fünf grün.")
    for view in VIEWS:
        page.show(view)
        page.until(lambda view=view: page.all({"inside": ".tree", "run": ".chart"}.get(view, "#target .word")))
        assert broken(page, theme) == [], view
    page.show("inside")
    page.all("button.head")[0].click()
    assert broken(page, theme) == [], "a head"
    page.one("#head-close").click()
    page.show("translate")
    page.all("#target .word")[0].click()
    page.until(lambda: page.all("#menu [role=menuitem]"))
    assert broken(page, theme) == [], "the menu"
    page.press(Keyboard.ESCAPE)
    page.one("#language").click()
    assert broken(page, theme) == [], "in Chinese"
    page.script("document.getElementById('key').showModal()")
    assert broken(page, theme) == [], "the key"


def broken(page: Page, theme: str) -> list[str]:
    """What axe-core objects to; in the dark only colours differ, so that the other rules need no second look."""
    page.script(AXE)
    rules = {"runOnly": ["color-contrast"]} if theme == "dark" else {}
    found = page.driver.execute_async_script("axe.run(arguments[0]).then(arguments[1])", rules)
    return [f"{one['id']}: {node['html'][:200]}" for one in found["violations"] for node in one["nodes"]]
