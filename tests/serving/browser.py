"""Chromium as Debian has it, without a window, and a page in it."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from tests.serving.running import PATIENCE

PROGRAMS = {"chromium": "chromium", "chromedriver": "chromium-driver"}
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--lang=en",
)


def programs() -> dict[str, str]:
    """Where the browser and its driver are. Without them a test is skipped, but never where tests are the law."""
    found = {name: path for name in PROGRAMS if (path := shutil.which(name))}
    if missing := PROGRAMS.keys() - found.keys():
        words = f"no {' and no '.join(sorted(missing))}: apt-get install {' '.join(PROGRAMS.values())}"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    return found


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[webdriver.Chrome]:
    """profile and downloads: in this folder."""
    found = programs()
    options = webdriver.ChromeOptions()
    options.binary_location = found["chromium"]
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(found["chromedriver"]))
    try:
        driver.set_window_size(1280, 900)
        driver.set_script_timeout(PATIENCE)
        driver.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder / "downloads")}
        )
        yield driver
    finally:
        driver.quit()


class Page:
    """attendo's page, as somebody who looks at it and uses it."""

    def __init__(self, driver: webdriver.Chrome, url: str, downloads: Path) -> None:
        self.driver = driver
        self.url = url
        self.downloads = downloads
        self.loads = 0

    def open(self, view: str = "translate") -> None:
        self.loads += 1
        self.driver.get(f"{self.url}/?{self.loads}#{view}")  # another address, or only the view would change
        self.until(lambda: self.one(f"#tab-{view}").get_attribute("aria-selected") == "true")
        self.until(lambda: self.text("#source-name") != "Text" and self.text("#source-name") != "原文")

    def show(self, view: str) -> None:
        """By its tab, as soon as it is there."""
        self.one(f"#tab-{view}").click()
        self.until(lambda: self.one(f"#{view}").is_displayed())

    def begin(self) -> None:
        """As on the first visit: the browser remembers nothing, and has said nothing."""
        if not self.driver.current_url.startswith(self.url):
            self.driver.get(f"{self.url}/page/icon.svg")
        self.script("localStorage.clear(); sessionStorage.clear()")
        self.console()
        self.open()

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """Of an element, seen or not, as it stands in the page."""
        return str(self.one(selector).get_property("textContent"))

    def weight(self, element: WebElement) -> float:
        """That of an attention, by which an element is coloured."""
        return float(self.script("return arguments[0].style.getPropertyValue('--weight')", element))

    def script(self, code: str, *arguments: object) -> Any:
        return self.driver.execute_script(code, *arguments)

    def until(self, condition: Callable[[], object]) -> Any:
        # An element may be replaced between finding and reading it.
        waiting = WebDriverWait(self.driver, PATIENCE, 0.05, ignored_exceptions=[StaleElementReferenceException])
        return waiting.until(lambda _: condition())

    def until_text(self, selector: str, text: str) -> None:
        try:
            self.until(lambda: text in self.text(selector))
        except Exception:
            raise AssertionError(f"{selector} is {self.text(selector)!r}, and never {text!r}") from None

    def type(self, text: str, into: str = "#source") -> None:
        """In the place of what stands there; all at once, as the page does something whenever somebody pauses."""
        self.one(into).send_keys(Keys.CONTROL, "a")
        if text:
            self.driver.execute_cdp_cmd("Input.insertText", {"text": text})
        else:
            self.one(into).send_keys(Keys.DELETE)

    def translate(self, text: str, becomes: str) -> None:
        self.type(text)
        self.until_text("#target", becomes)
        self.until(lambda: not self.one("#target").get_attribute("aria-busy"))

    def answer(self, path: str, body: str) -> None:
        """Answers to a path are made by JavaScript from now on, from `options`, as `fetch` gets them."""
        self.script(f"""
            const fetched = window.fetch;
            window.asked = [];
            window.fetch = async (path, options) => {{
              if (path !== "{path}") return fetched(path, options);
              asked.push(options);
              {body}
            }};
        """)

    def downloaded(self, name: str) -> bytes:
        """A file, once it is whole: Chromium reserves its name with an empty one, and renames the other to it."""
        file = self.downloads / name
        return bytes(self.until(lambda: file.exists() and file.read_bytes()))

    def drop(self, name: str, content: bytes) -> None:
        """A file, where documents are taken."""
        self.script(
            """
            const files = new DataTransfer();
            files.items.add(new File([new Uint8Array(arguments[1])], arguments[0]));
            document.getElementById("drop").dispatchEvent(
              new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
            """,
            name,
            list(content),
        )

    def press(self, *keys: str) -> None:
        """Keys, to whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def press_with(self, modifier: str, key: str) -> None:
        webdriver.ActionChains(self.driver).key_down(modifier).send_keys(key).key_up(modifier).perform()

    def focused(self) -> WebElement:
        return self.driver.switch_to.active_element

    def console(self) -> list[str]:
        """What the browser complained about since the last time."""
        found: list[dict[str, Any]] = self.driver.get_log("browser")
        return [one["message"] for one in found if one["level"] in ("SEVERE", "WARNING")]
