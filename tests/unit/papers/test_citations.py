"""Every citation is that of config/bibliography.yaml, and a bad file of a work is one line."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from project import ROOT
from tests_world import CLAIMS, MAP, card, files_of, paper, tabled, unused_words

from leakbench.base.errors import UserError
from leakbench.papers.bibliography import OTHERS, Publication, bibliography, citation, cited, source
from leakbench.papers.work import read_papers

WORKS = bibliography(ROOT / "config")
CODE = {each.code for each in WORKS.values() if each.code}
# The second line: beginnings of links, which the code that makes citations names.
LINKS = {each.link for each in WORKS.values() if each.link}
LINKS |= {"https://arxiv.org/abs/", "https://doi.org/"}
# Where papers, laws and reports are read.
PLACES = (
    r"arxiv\.org|doi\.org|openreview\.net|usenix\.org|proceedings\.|ieee\.org|acm\.org|springer\.com|mlr\.press"
    r"|thecvf\.com|iqua\.ece|europa\.eu|aclanthology|semanticscholar|Rand2AI"
)
_NAME = r"\b[A-ZÀ-Ý][a-zà-ÿ][\w'-]*"
_PERSON = rf"{_NAME}(?: {_NAME}){{0,2}}"
_ALL = rf"{_NAME} et al\b\.?|{_PERSON}(?:, {_PERSON}){{0,9}} and {_PERSON}"
# Words before a year that name no author.
_NO_AUTHOR = "January|February|March|April|May|June|July|August|September|October|November|December|since|in"
_YEAR = r"(?:18|19|20)\d\d\b"
_REFERENCE = rf"(?:arXiv:\d{{4}}\.\d{{4,5}}|(?:[A-Z][\w&]*(?: [A-Z][\w&]*)* )?{_YEAR})"
_SEVERAL = rf"{_REFERENCE}(?:(?:, | and ){_REFERENCE})*"
# Authors, maybe a title, and venue, year or number: A et al., "A title" (ICLR 2024).
CITATION = re.compile(
    rf"(?P<who>{_ALL})"
    rf"(?:,? (?:\"(?P<quoted>[^\"]+)\"|\[(?P<linked>[^\]]+)\]\((?P<link>[^)\s]+)\)"
    rf"|(?P<plain>[A-Z][^.()|;:\"\[]{{9,150}}?)(?= \({_SEVERAL}\))))?"
    rf"(?:,? \(?(?P<when>{_SEVERAL}))?"
)
# One author, or several without "and", and a year: (Wilson 1927), (Mironov, 2017).
ALONE = re.compile(
    rf"(?<=\()(?P<who>(?!(?:{_NO_AUTHOR})\b){_NAME}(?:, {_NAME})*),? (?P<when>{_YEAR})"
    rf"|(?P<one>P\. \w+) \((?P<of>{_YEAR})\)"
)
TITLED = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<link>https?://[^)\s]+)\)(?:,? (?P<year>\d{4})\b)?")
NUMBERED = re.compile(r"arXiv:(\d{4}\.\d{4,5})")
ADDRESS = re.compile(rf"https?://[^\s)\"'`<>,|]*(?:{PLACES})[^\s)\"'`<>,|]*")
OFFICIAL = re.compile(r"(?:Opinion|TechDispatch) #?(\d+/\d{4})")


def texts() -> dict[str, str]:
    """Return the path below the checkout → the text, of each file that may cite."""
    tracked = subprocess.run(
        ["git", "ls-files", "*.md", "*.cff", "*.yml", "*.yaml", "*.py", "*.j2", "*.ipynb"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    own = ("tests/", "config/bibliography.yaml")
    return {name: (ROOT / name).read_text(encoding="utf-8") for name in tracked if not name.startswith(own)}


def flat(text: str) -> str:
    """Return a text on one line, without the marks of comments and the seams of Python's strings."""
    text = re.sub(r"\"\s*\n\s*f?\"", "", text)
    return re.sub(r"\s+(?:#+:? )?", " ", text)


def by(who: str) -> list[Publication]:
    """Return the works whose authors a citation may mean."""
    if "et al" in who:
        first = who.partition(" et al")[0]
        return [each for each in WORKS.values() if each.names[0].split()[-1] == first.split()[-1]]
    names = re.split(r", | and ", who)
    return [each for each in WORKS.values() if each.names == names and OTHERS not in each.authors]


def is_title(title: str, work: Publication) -> bool:
    """Return whether a title is that of a work, or its beginning up to the end of a word."""
    said, full = title.casefold().strip(" ,"), work.title.casefold()
    return said == full or (len(said.split()) > 2 and re.match(rf"{re.escape(said)}\b", full) is not None)


def fits(work: Publication, reference: str) -> bool:
    if found := NUMBERED.fullmatch(reference):
        return work.address == found[0]
    venue, _, year = reference.rpartition(" ")
    return int(year) == work.year and venue in ("", work.venue)


def problems(text: str) -> Iterator[str]:
    """Yield what a text says of cited works and the bibliography does not say."""
    text = flat(text)
    numbers = {each.address for each in WORKS.values()}
    yield from (f"{n[0]}: unknown" for n in NUMBERED.finditer(text) if n[0] not in numbers)
    yield from (f"{n[0]}: unknown" for n in ADDRESS.finditer(text) if n[0].rstrip(".") not in LINKS | CODE)
    for found in TITLED.finditer(text):
        for work in (each for each in WORKS.values() if each.link == found["link"]):
            if found["title"] != work.title:
                yield f"{found[0]}: its title is {work.title}"
            if found["year"] and int(found["year"]) != work.year:
                yield f"{found[0]}: its year is {work.year}"
    for found in CITATION.finditer(text):
        title = found["quoted"] or found["plain"]
        if not found["when"] and not found["linked"] and "et al" not in found["who"]:
            continue
        if found["link"] and not any(each.link == found["link"] for each in WORKS.values()):
            continue
        known = by(found["who"])
        # A sentence may begin before the names: drop capitalised words in front.
        who = found["who"]
        while not known and " " in who and "et al" not in who.split(" ", 1)[0]:
            who = who.split(" ", 1)[1]
            known = by(who)
        known = [each for each in known if not title or is_title(title, each)]
        known = [each for each in known if not found["link"] or each.link == found["link"]]
        references = re.findall(_REFERENCE, found["when"] or "")
        if not known or any(not any(fits(each, one) for each in known) for one in references):
            yield f"{found[0]}: no such work"
    for found in ALONE.finditer(text):
        who, when = found["who"] or found["one"].split()[-1], found["when"] or found["of"]
        names = who.split(", ")
        if not any(each.names == names and each.year == int(when) for each in WORKS.values()):
            yield f"{found[0]}: no such work"
    titles = " ".join(each.title for each in WORKS.values())
    yield from (f"{n[0]}: unknown" for n in OFFICIAL.finditer(text) if n[1] not in titles)


def test_what_is_cited_is_in_the_bibliography() -> None:
    found = {name: list(problems(text)) for name, text in texts().items()}
    assert {name: each for name, each in found.items() if each} == {}


DLG = "Zhu, Liu and Han, [Deep Leakage from Gradients](https://arxiv.org/abs/1906.08935), 2019"


@pytest.mark.parametrize(
    ("said", "altered"),
    [
        (DLG, "2019|2020"),
        (DLG, "from|by"),
        (DLG, "Liu|Li"),
        (DLG, "08935|08936"),
        ("see https://arxiv.org/abs/1906.08935.", "08935|08936"),
        ("the letters of Carletti et al. (USENIX\n# Security 2025)", "2025|2024"),
        ("the letters of Carletti et al. (USENIX Security 2025)", "USENIX Security|CCS"),
        ("(Shariati and Alambardar Meybodi,\narXiv:2609.09659)", "09659|09656"),
        ("Zhao et al., CVPR 2023 and S&P 2024", "2024|2022"),
        ('Garov et al., "Hiding in Plain Sight" (ICLR 2024), section 4.', "Plain|Clear"),
        ("Chen and Vikalo, Recovering labels from local updates (ICML 2024)", "labels|data"),
        ("Wilson's interval (Wilson 1927)", "1927|1928"),
        ("(LeCun, Cortes, Burges 1998)", "Cortes|Cortez"),
        ("as Xu et al. do", "Xu|Xy"),
        ("[SoK: Gradient Inversion Attacks in Federated Learning](https://www.usenix.org/conference/"
         "usenixsecurity25/presentation/carletti)", "Inversion Attacks|Leakage"),
        ("EDPB Opinion 28/2024", "28|27"),
    ],
)  # fmt: skip
def test_an_altered_citation_is_found(said: str, altered: str) -> None:
    assert list(problems(said)) == []
    before, after = altered.split("|")
    assert before in said
    assert list(problems(said.replace(before, after, 1)))


def test_every_work_is_cited() -> None:
    everything = flat(" ".join(texts().values()))
    for key, work in WORKS.items():
        names = [work.short, work.surnames, f"({', '.join(work.names)}"]
        names += [f"{work.names[0].split()[-1]} et al", f"{work.names[-1]} ("]
        said = [work.title, *names, f'source("{key}")', f'"{key}": "', f" {key}: ", work.link, work.address]
        assert any(each in everything for each in filter(None, said)), key


def test_no_two_works_share_a_title_or_a_link() -> None:
    for key in ("title", "link"):
        words = [said for each in WORKS.values() if (said := getattr(each, key))]
        assert len(set(words)) == len(words)


@pytest.mark.parametrize("work", read_papers(ROOT / "papers"), ids=lambda work: work.name)
def test_the_works_that_are_rerun_are_named_as_in_the_bibliography(work) -> None:  # type: ignore[no-untyped-def]
    if work.name == "leakbench":
        return
    paper = work.paper
    title = re.sub(r" \(chapter \d of Ren's thesis\)$", "", paper.title)
    (known,) = (each for each in WORKS.values() if each.title == title)
    people = [" ".join(reversed(each.split(", "))) for each in known.authors]
    assert (paper.authors, paper.year) == (", ".join(people), known.year)
    assert paper.link in {known.link, known.code}


def test_the_manifest_and_the_citation_name_the_same_works() -> None:
    references = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    links = [each.get("url") or f"https://doi.org/{each['doi']}" for each in references]
    assert yaml.safe_load((ROOT / "codecheck.yml").read_text())["source"].split(", ") == links
    assert [each["title"] for each in references] == [each.title for each in WORKS.values() if each.citation]


def test_a_citation_is_made_from_its_link() -> None:
    """Authors, venue and year only where there were some; an unknown link and line breaks stay."""
    link = "https://arxiv.org/abs/1906.08935"
    made = cited(
        f"as in Zhou and Han,\n[DLG]({link}), 2018; [x]({link}); [y](https://example.org), 2018", WORKS
    )
    full = f"[Deep Leakage from Gradients]({link})"
    assert made == f"as in Zhu, Liu and Han, {full}, 2019; {full}; [y](https://example.org), 2018"
    kept = f"(Zhu,\nLiu and Han, [Deep\nLeakage from Gradients]({link}),\n2019)"
    assert cited(kept, WORKS) == kept
    assert cited(f"Zhou et al., [DLG]({link}), 2018", WORKS) == f"Zhu et al., {full}, 2019"
    thesis = "Hanchi Ren, [Leakage](https://doi.org/10.23889/SUthesis.63648), Cardiff, 2022."
    assert cited(thesis, WORKS).endswith(
        "](https://doi.org/10.23889/SUthesis.63648), Swansea University, 2023."
    )


def test_the_references_are_made_anew() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    head = text.partition("references:\n")[0]
    assert citation(f"{head}references:\n  - title: stale\n", WORKS) == text
    with pytest.raises(UserError, match="references: is missing"):
        citation(head, WORKS)


def test_an_unknown_work_is_one_line() -> None:
    with pytest.raises(UserError, match="no work 'fidell'"):
        source("fidell")


def test_a_wrong_bibliography_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bibliography.yaml").write_text("a: {title: A, authors: [B], yaer: 2020}\n")
    with pytest.raises(UserError, match=r"bibliography\.yaml: a: "):
        bibliography(tmp_path)


CLAIM = CLAIMS["claims"][0]
# The first printed row, as messages locate it.
ROW = r"papers/tiny/measured\.yaml: table-1: tiny\.table-1\.1: "


def judged(tmp_path: Path, **files: Any) -> None:
    card(paper(tmp_path, **files), tabled())


def refusal(tmp_path: Path, **files: Any) -> str:
    """Return what is said of files that are refused, nothing where they are read."""
    try:
        judged(tmp_path, **files)
    except UserError as problem:
        return str(problem)
    return ""


def mapped(**keys: Any) -> dict[str, Any]:
    return {"measured": {"table-1": MAP["table-1"] | keys}}


def claimed(**keys: Any) -> dict[str, Any]:
    return {"claims": {"claims": [CLAIM | keys]}}


TABLE = yaml.safe_load(Path(__file__).with_name("papers_bad.yaml").read_text())


@pytest.mark.parametrize("row", TABLE, ids=lambda row: str(row["says"]))
def test_a_mistake_is_one_line(row: dict[str, Any], tmp_path: Path) -> None:
    files = files_of(row)
    if row["says"] is None:
        return judged(tmp_path, **files)
    with pytest.raises(UserError, match=row["says"].replace("ROW", ROW)):
        judged(tmp_path, **files)


def test_a_folder_without_papers_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no paper\.yaml in any folder"):
        read_papers(tmp_path)


def test_words_that_nothing_prints_are_found(tmp_path: Path) -> None:
    table = MAP["table-1"] | {"dataset": MAP["table-1"]["dataset"] | {"Painting": "paintings"}}
    (work,) = read_papers(paper(tmp_path, measured={"table-1": table}))
    assert unused_words(work) == ["table-1.dataset: Painting"]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=True) | st.text(max_size=8)
    | st.sampled_from(["at()", "mean([own()])", "dataset", "by", "psnr"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["by", "Digits", "else", "attack"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
MORE = (
    "unit needs quantity fact absent check class tells success beside repeats tolerance unit_std otherwise x"
)
KEYS = st.sampled_from([*MAP["table-1"], *MORE.split()])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(KEYS, ANYTHING, max_size=3))
def test_whatever_a_map_holds_it_is_read_or_refused_in_one_line(tmp_path: Path, keys: dict[str, Any]) -> None:
    told = refusal(tmp_path, **mapped(**keys))
    assert not told or "papers/tiny/" in told


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text("at()[]{}+-*/=<>'\",.: fastslowmeanforinif1230x", max_size=60))
def test_whatever_an_expression_is_it_is_read_or_refused_in_one_line(tmp_path: Path, text: str) -> None:
    told = refusal(tmp_path, **claimed(quantity=text))
    assert not told or "papers/tiny/" in told
