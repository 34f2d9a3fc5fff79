"""The sources of the site: what README.md leads to, pages made of papers and records, and the menu."""

import os
import posixpath
import re
import shutil
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from markdown_it import MarkdownIt

from leakbench.base.digest import write_changed
from leakbench.base.errors import UserError
from leakbench.catalogue.experiment import Experiment
from leakbench.papers.items import natural
from leakbench.papers.work import Work
from leakbench.results.report.numbers import interval, number

# Every page is reached from the first. The second sorts the pages, and the menu is read from it.
START, INDEX = "README.md", "docs/README.md"
# Folder of made pages → where the menu has them.
PRINTED, GALLERY, MANUAL = "printed", "gallery", "manual"
MADE = {PRINTED: "Printed beside ours", GALLERY: "Gallery", MANUAL: "Reference"}
_CODE = r"^(?P<fence> *```)[^\n]*\n.*?^(?P=fence)[^\n]*$|(?P<ticks>`+)(?!`).*?(?<!`)(?P=ticks)(?!`)"
_LINK = re.compile(rf"{_CODE}|(?P<text>!?\[[^][]*\])\((?P<to>[^)\s]+)\)", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_SORTED = re.compile(r"^## (.+)$|^\| \[[^]]+\]\(([^)#]+\.md)\)", re.MULTILINE)
_MARKER = re.compile(r"(?:[-*+]|\d+[.)]) +")


def write(root: Path, made: Mapping[str, str], pictures: Mapping[str, Path], into: Path) -> None:
    """Empty `into`, and write the sources of the site there: its pages below pages/, and mkdocs.yml."""
    # made: path of a made page, as if below the checkout → its text.
    # pictures: path of a picture that made pages show, likewise → its file.
    # Raises UserError, which names the page and the target, where a link leads to no file of the checkout.
    shutil.rmtree(into, ignore_errors=True)
    queue, titles = [START, *made], dict[str, str]()
    known = set(queue)

    def linked(link: re.Match[str]) -> str:
        """Return a link of page `name` as the site has it; put its target on the list."""
        to = (link["to"] or "").partition("#")[0]
        if not to or re.match(r"[a-z]+:", to):
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), to))
        if (root / target).is_dir():
            return link["text"].removeprefix("!")[1:-1]
        if target not in made and target not in pictures and not (root / target).is_file():
            raise UserError(f"{name}: the link to {link['to']} leads to no file (mend it)")
        if target not in known:
            known.add(target)
            queue.append(target)
        return link[0]

    while queue:
        name = queue.pop()
        page = into / "pages" / name
        if not name.endswith(".md"):
            page.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(pictures.get(name, root / name), page)
            continue
        text = made[name] if name in made else (root / name).read_text(encoding="utf-8")
        title = _TITLE.search(text)
        titles[name] = title[1].replace("`", "") if title else Path(name).stem
        write_changed(page, indented(_LINK.sub(linked, text)))
    settings = {
        "INHERIT": os.path.relpath(root / "site/mkdocs.yml", into),
        "site_dir": os.path.relpath(root / "results/site", into),
        "nav": menu((root / INDEX).read_text(encoding="utf-8"), titles),
    }
    assets = into / "pages/assets"
    assets.mkdir(parents=True)
    for name in ("style.css", "iframe-worker.js", "keyboard.js"):
        shutil.copyfile(root / "site" / name, assets / name)
    write_changed(into / "mkdocs.yml", yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))


def menu(index: str, titles: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the menu: the sections of the page INDEX, whose text is given, made pages, and all others."""
    sections: dict[str, list[str]] = {}
    title = ""
    for head, page in _SORTED.findall(index):
        title = head or title
        pages = sections.setdefault(title, [])
        if page:
            pages.append(posixpath.normpath(posixpath.join(posixpath.dirname(INDEX), page)))
    for name in sorted(titles):
        if (folder := name.partition("/")[0]) in MADE:
            sections.setdefault(MADE[folder], []).append(name)
    listed = {START, INDEX, *(name for pages in sections.values() for name in pages)}
    sections["Project"] = sorted(titles.keys() - listed)
    # The pages of a work are named by its folder.
    short = {n: Path(n).stem if n.startswith((PRINTED, GALLERY)) else titles[n] for n in titles}
    found: list[dict[str, object]] = [{"Home": START}, {"All documents": INDEX}]
    found += [{head: [{short[n]: n} for n in pages]} for head, pages in sections.items() if pages]
    return found


def indented(text: str) -> str:
    """Return a page with lists as Python-Markdown has them: four columns a level, a blank line before."""
    lines = text.splitlines()
    # Line → the columns of each level of lists around it; lines that open an item.
    around: list[list[int]] = [[] for _ in lines]
    opens, blank, depth = set(), set(), 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in ("bullet_list_open", "ordered_list_open"):
            if not depth and token.map and token.map[0] and lines[token.map[0] - 1].strip():
                blank.add(token.map[0])
            depth += 1
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            depth -= 1
        elif token.type == "list_item_open" and token.map:
            first, end = token.map
            before = sum(around[first])
            marker = _MARKER.match(lines[first][before:])
            opens.add(first)
            for inside in range(first, end):
                around[inside].append(marker.end() if marker else 2)
    out = []
    for at, (line, levels) in enumerate(zip(lines, around, strict=True)):
        out += [""] if at in blank else []
        if levels and line.strip():
            outer = levels[:-1] if at in opens else levels
            line = line[min(sum(outer), len(line) - len(line.lstrip())) :]
            if at in opens:
                line = f"{line[: levels[-1]].strip():<4}{line[levels[-1] :]}"
            line = " " * 4 * len(outer) + line
        out.append(line)
    return "\n".join(out) + "\n"


def _cell(value: Any) -> str:
    # Two brackets in a row would be a reference.
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;").replace("][", "]\\[")


def _items(frame: pd.DataFrame) -> Iterable[tuple[str, pd.DataFrame]]:
    for item in sorted(set(frame["item"]), key=natural):
        yield item, frame[frame["item"] == item]


def printed(works: Iterable[Work], card: pd.DataFrame) -> dict[str, str]:
    """Return path → page: what each work prints beside ours in the scorecard of records, item by item."""
    # Raises UserError for a work of which the scorecard has no row.
    heads = ("of what", "printed", "ours, 95 % interval, n", "verdict", "why")
    made = {}
    for work in works:
        own = card[(card["work"] == work.name) & (card["class"] != "setting")]
        if own.empty:
            raise UserError(f"papers/{work.name}: the scorecard has no row of it (run `leakbench plan`)")
        parts = [
            f"# {work.paper.title}", "Every number and statement beside ours, from the recorded tables. "
            "Verdicts are explained in [docs/verdicts.md](../docs/verdicts.md).",
        ]  # fmt: skip
        for item, rows in _items(own):
            parts.append(f"## {item}")
            ran = rows[rows["verdict"] != "not-run"]
            table = [heads, ("---",) * len(heads)] if len(ran) else []
            for row in ran.to_dict("records"):
                bounds, n = interval(row["ci_low"], row["ci_high"]), number(row["n"], 6)
                ours = " ".join(filter(None, (number(row["measured"]), bounds, n and f"n = {n}")))
                what = f"{row['metric']}: {row['condition']}"
                table.append((what, row["published"], ours, row["verdict"], row["reason"]))
            parts.append("\n".join(f"| {' | '.join(map(_cell, line))} |" for line in table))
            idle = rows.loc[rows["verdict"] == "not-run", "reason"].value_counts()
            parts += [f"Not run: {many} of {len(rows)} rows. {_cell(why)}." for why, many in idle.items()]
        made[f"{PRINTED}/{work.name}.md"] = "\n\n".join(filter(None, parts)) + "\n"
    return made


def gallery(
    root: Path, works: Iterable[Work], experiments: Mapping[str, tuple[str, Experiment]], scale: str,
    card: pd.DataFrame,
) -> tuple[dict[str, str], dict[str, Path]]:  # fmt: skip
    """Return path → page, and path → file of the pictures: the figures of a run with their experiments' text.

    experiments: name → its work and itself.
    scale: the scale of the run whose figures are shown.

    Raises UserError where a figure is missing.
    """
    made, pictures = {}, {}
    if not (tables := root / f"results/{scale}/tables").is_dir():
        raise UserError(f"{tables}: is missing, so the gallery lacks it (run snakemake first)")
    for work in works:
        own = {name: each for name, (of, each) in experiments.items() if of == work.name}
        parts, absent = [f"# {work.paper.title}"], []
        for name in sorted(own, key=lambda each: (natural(own[each].item), each)):
            each, drawn = own[name], root / f"results/{scale}/figures/{name}.png"
            # A run has no table of what its scale leaves out whole.
            if not drawn.is_file() and (tables / f"{name}.csv").is_file():
                raise UserError(f"{drawn}: is missing, so the gallery lacks it (run snakemake first)")
            if not drawn.is_file() or not drawn.stat().st_size:
                absent.append(f"- `{name}`: {each.title}")
                continue
            picture = f"{GALLERY}/{name}.png"
            pictures[picture] = drawn
            named = card["condition"].str.contains(f"experiment={name}[,\\]]")
            counts = card.loc[named, "verdict"].value_counts()
            told = "".join(p.read_text("utf-8") for p in (root / "papers").glob(f"*/found/{name}.md"))
            parts += [
                f"## {each.title} {{#{name}}}", f"*{each.item}:* {escape(each.shows, quote=False)}",
                f"![{escape(each.title)}]({name}.png){{loading=lazy}}",
                ", ".join(f"{word}: {many}" for word, many in counts.items()), told.strip(),
                f"    snakemake --cores 2 results/{scale}/figures/{name}.png",
            ]  # fmt: skip
        if absent:
            parts += ["## Without a figure", f"Scale {scale} draws nothing of these.", "\n".join(absent)]
        made[f"{GALLERY}/{work.name}.md"] = "\n\n".join(filter(None, parts)) + "\n"
    return made, pictures
