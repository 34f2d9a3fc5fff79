"""Loads a page in headless Chromium and says all that is wrong with it; for every test that has a page."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SIZES = {"desktop": (1280, 900), "tablet": (768, 1024), "phone": (390, 844)}
# An A4 sheet between margins of a centimetre, in pixels of 1/96 inch.
SHEET, MARGIN = {"width": 718, "height": 1047}, dict.fromkeys(("left", "right", "top", "bottom"), "1cm")
MOST_SHEETS = 40
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-sync", "--disable-component-update", "--disable-default-apps", "--no-first-run", "--no-pings",
]  # fmt: skip
# What the theme fades from one scheme into the other takes a moment.
FADE = 150
LOOK = Path(__file__).with_name("look.js").read_text()
SCORED = """() => {
  const [card, figure] = [document.querySelector('#scorecard'), document.querySelector('figure')];
  return card && (!figure || card.compareDocumentPosition(figure) & Node.DOCUMENT_POSITION_FOLLOWING);
}"""
UNFOLD = """() => {
  for (const one of document.querySelectorAll('details')) one.open = true;
  // What is far from the window has no places of its own else.
  for (const one of document.querySelectorAll('article')) one.style.contentVisibility = 'visible';
}"""
# What a mouse could click and Tab does not stop at. A label's own control, or that of its form, does as well.
LEFT = """() => {
  const stops = one => one && one.tabIndex >= 0 && (one.focus(), document.activeElement === one);
  const left = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, label[for]')]
    .filter(one => one.checkVisibility({opacityProperty: true, visibilityProperty: true})
      && one.offsetWidth && one.offsetHeight && !one.disabled && one.ariaDisabled !== 'true' && !stops(one)
      && (one.tagName !== 'LABEL' || getComputedStyle(one).cursor === 'pointer' && !stops(one.control)
        && !stops(one.closest('form')?.elements[0])));
  document.activeElement.blur();
  scrollTo(0, 0);
  return left.map(one => one.outerHTML.replace(/\\s+/g, ' ').slice(0, 90));
}"""


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


def faults(path: Path) -> list[str]:
    """Load a report in a browser of its own; see `inspect`."""
    with browser() as chromium:
        return inspect(chromium, path, scored=True)


def inspect(
    chromium: Any, path: Path, *, home: Path | None = None, scored: bool = False, shots: Path | None = None
) -> list[str]:
    """Load a page, open what it folds; return a sentence for every fault, an empty list for none.

    Faults: console and page errors, any request but for the file itself, what lies below `home`, and data:
    addresses; in each size and in a light and a dark scheme a picture that is not drawn, a document wider
    than it, pale text and text over text; what Tab does not stop at; on paper, too, what is cut off or
    not printed. A page that is `scored` has a scorecard before its first figure, and at most MOST_SHEETS
    sheets. With `shots`, a folder, each screenshot and the sheets are written there.
    """
    address = path.resolve().as_uri()
    page = chromium.new_page()
    try:
        found = _listen(page, home.resolve().as_uri() + "/" if home else address)
        page.goto(address, wait_until="load")
        if scored and not page.evaluate(SCORED):
            found.append("no scorecard before the first figure")
        page.emulate_media(media="print")
        asked = {"path": shots / f"{path.stem}.pdf"} if shots else {}
        sheets = len(re.findall(rb"/Type\s*/Page[^s]", page.pdf(format="A4", margin=MARGIN, **asked)))
        if scored and sheets > MOST_SHEETS:
            found.append(f"paper: {sheets} sheets")
        page.emulate_media(media="screen")
        page.evaluate(UNFOLD)
        for name, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(FADE)
                found += [f"{name}, {scheme}: {fault}" for fault in page.evaluate(LOOK, False)]
                if shots:
                    page.screenshot(path=shots / f"{path.stem}-{name}-{scheme}.png")
            found += [f"{name}: the keyboard does not reach {one}" for one in page.evaluate(LEFT)]
        page.emulate_media(media="print", color_scheme="dark")
        page.set_viewport_size(SHEET)
        page.wait_for_timeout(FADE)
        found += [f"paper: {fault}" for fault in page.evaluate(LOOK, True)]
        return found
    finally:
        page.close()


def _listen(page: Any, home: str) -> list[str]:
    """A list that fills with what the page says, and asks for elsewhere."""
    heard: list[str] = []

    def console(message: Any) -> None:
        if message.type in ("error", "warning"):
            heard.append(f"console {message.type}: {message.text}")

    def request(asked: Any) -> None:
        if not asked.url.startswith((home, "data:")):
            heard.append(f"asks for {asked.url}")

    page.on("console", console)
    page.on("pageerror", lambda problem: heard.append(f"page error: {problem}"))
    page.on("request", request)
    return heard
