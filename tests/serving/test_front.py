"""The files of the web page: what is sent with them, and what they never do."""

import dataclasses
import re

import pytest

from attendo.serving.front import FOLDER, POLICY, read_files
from attendo.serving.limits import Limits
from tests.serving.browser import programs

FILES = read_files()
SCRIPTS = {name: file.content.decode("utf-8") for name, file in FILES.items() if name.endswith(".js")}
PAGE = FILES["index.html"].content.decode("utf-8")
WORDS = SCRIPTS["words.js"]


@pytest.mark.parametrize("path", ["/", *(f"/page/{name}" for name in FILES)])
def test_each_file_comes_with_the_policy(server, path):
    reply = server.get(path)
    assert reply.status == 200
    assert reply.headers["content-security-policy"] == POLICY
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.body == FILES[path.rpartition("/")[2] or "index.html"].content
    again = server.ask("GET", path, headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def test_the_policy_lets_nothing_in():
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == "'none'"
    assert "unsafe" not in POLICY
    assert "*" not in POLICY
    for kind in ("script-src", "style-src", "connect-src"):
        assert rules[kind] == "'self'"


@pytest.mark.parametrize(
    "name", ["../front.py", "%2e%2e/front.py", "..%2ffront.py", "%2fetc%2fpasswd", "x", "%00", "."]
)
def test_nothing_else_is_sent(server, name):
    reply = server.get(f"/page/{name}")
    assert reply.status == 404
    assert "error" in reply.json()


def test_text_never_becomes_markup():
    for name, code in SCRIPTS.items():
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ):
            assert word not in code, (name, word)
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script>", PAGE)


def test_nothing_comes_from_elsewhere():
    for name, file in FILES.items():
        found = set(re.findall(r"https?://[^\s\"']+", file.content.decode("utf-8")))
        assert found <= {"http://www.w3.org/2000/svg"}, name


def test_what_is_imported_is_there():
    for name, code in SCRIPTS.items():
        for names, module in re.findall(r'^import \{([^}]+)\} from "\./(\S+)";$', code, re.MULTILINE):
            for one in re.split(r",\s*", names.strip()):
                exported = rf"^export (async )?(function\*?|const|class) {one}\b"
                assert re.search(exported, SCRIPTS[module], re.MULTILINE), (name, one)


def test_every_text_is_there_in_both_languages():
    english, chinese = (
        dict(re.findall(r'^  "?([\w -]+?)"?: "(.*)",$', part, re.MULTILINE))
        for part in re.findall(r"^const (?:ENGLISH|CHINESE) = \{\n(.*?)^\};$", WORDS, re.DOTALL | re.MULTILINE)
    )
    assert english.keys() == chinese.keys()
    for name, text in english.items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", chinese[name])), name
    used = set(re.findall(r'data-t(?:-[\w-]+)?="([^"]+)"', PAGE))
    for code in SCRIPTS.values():
        used |= set(re.findall(r'\bt\("([^"]+)"', code))
    assert used <= english.keys()
    busy = {"held", "requests", "queue"}  # never a reason to refuse, or told as being busy
    assert {f"limit {field.name}" for field in dataclasses.fields(Limits) if field.name not in busy} <= english.keys()


def test_the_files_are_part_of_the_package():
    assert {path.suffix for path in FOLDER.iterdir()} == {".html", ".css", ".js", ".svg"}


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_a_browser_the_page_is_not_tested_but_never_so_in_ci(monkeypatch, ci, outcome):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no chromedriver and no chromium: apt-get install chromium chromium-driver"):
        programs()
