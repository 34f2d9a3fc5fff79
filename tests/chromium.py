"""Loads a page in headless Chromium and says everything that is wrong with it; for every test that has a
page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-sync", "--disable-component-update", "--disable-default-apps", "--no-first-run", "--no-pings",
]  # fmt: skip
LOOK = """() => ({
  undrawn: [...document.images].filter(i => !i.complete || i.naturalWidth === 0).map(i => i.alt),
  images: document.images.length,
  beyond: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  scorecard: document.querySelector('#scorecard')?.getBoundingClientRect().top ?? null,
  figure: document.querySelector('figure')?.getBoundingClientRect().top ?? null,
})"""

CONTRAST = Path(__file__).with_name("contrast.js").read_text()


def executable() -> str:
    """Path of Chromium. Skips the test where there is none, but fails it where CI is set."""
    path = shutil.which("chromium")
    if path is None:
        reason = "no chromium on this machine (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium (playwright's Browser)."""
    from playwright.sync_api import sync_playwright

    path = executable()
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=QUIET)
        try:
            yield chromium
        finally:
            chromium.close()


def faults(path: Path, *, shots: Path | None = None) -> list[str]:
    """Load a report in a browser of its own at phone and desktop width; see `inspect`."""
    with browser() as chromium:
        return inspect(chromium, path, shots=shots)


def inspect(chromium: Any, path: Path, *, shots: Path | None = None, scored: bool = True) -> list[str]:
    """Load a report at phone and desktop width; return one sentence for every fault, an empty list for none.

    Faults: console and page errors, any request other than the file itself and data: addresses, a picture
    that is not drawn, a document wider than the window, a scorecard that does not come before the first
    figure (of a page that is `scored`), pale text in a light or a dark scheme. With `shots`, a folder, each
    width's screenshot is written there.
    """
    found: list[str] = []
    for name, (width, height) in SIZES.items():
        page = chromium.new_page(viewport={"width": width, "height": height})
        try:
            heard = _listen(page, path.resolve().as_uri())
            page.goto(path.resolve().as_uri(), wait_until="load")
            found += [f"{name}: {fault}" for fault in [*heard, *_look(page.evaluate(LOOK), scored)]]
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                found += [f"{name}, {scheme}: pale text: {text}" for text in page.evaluate(CONTRAST)]
            page.emulate_media(color_scheme="light")
            if shots is not None:
                page.screenshot(path=shots / f"{name}.png", full_page=True)
        finally:
            page.close()
    return found


def _listen(page: Any, address: str) -> list[str]:
    """A list that fills with what the page says and asks for while it loads."""
    heard: list[str] = []

    def console(message: Any) -> None:
        if message.type in ("error", "warning"):
            heard.append(f"console {message.type}: {message.text}")

    def request(asked: Any) -> None:
        if asked.url != address and not asked.url.startswith("data:"):
            heard.append(f"asks for {asked.url}")

    page.on("console", console)
    page.on("pageerror", lambda problem: heard.append(f"page error: {problem}"))
    page.on("request", request)
    return heard


def _look(seen: dict[str, Any], scored: bool) -> list[str]:
    found = [f"picture not drawn: {alt}" for alt in seen["undrawn"]]
    if seen["beyond"] > 0:
        found.append(f"the document is {seen['beyond']} pixels wider than its window")
    if not scored:
        return found
    if seen["scorecard"] is None:
        found.append("no scorecard")
    elif seen["figure"] is not None and seen["figure"] < seen["scorecard"]:
        found.append("a figure comes before the scorecard")
    return found
