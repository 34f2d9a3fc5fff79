"""What a report's page says."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser

FACTS = {"scale": "quick", "versions": {"python": "3.11.2", "torch": "2.0"}}


class Text(HTMLParser):
    """Collects the tags and the visible words of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(html: str) -> Text:
    text = Text()
    text.feed(html)
    return text


def visible(html: str) -> str:
    return re.sub(r"\s+", " ", " ".join(read(html).words))


def rows_of(html: str) -> list[dict[str, str]]:
    """Return the rows of the page's table, which lie in it as data."""
    columns, packed = (
        re.findall(rf'<script type="application/{kind}" id="{name}">(.*?)</script>', html)[0]
        for kind, name in (("json", "columns"), ("gzip", "rows"))
    )
    keys = [column["key"] for column in json.loads(columns)]
    rows = json.loads(gzip.decompress(base64.b64decode(packed)))
    return [dict(zip(keys, row, strict=True)) for row in rows]
