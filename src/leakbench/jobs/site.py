"""site: write the sources of the site from the checkout, its records, and the figures of a run."""

from pathlib import Path

from leakbench import PUBLIC
from leakbench.jobs.manual import Records, pages
from leakbench.results import site as sources

API = """\
# The Python interface

`import leakbench` loads nothing but the list of these names; each loads its libraries when it is first used.
Every mistake of a caller is one `leakbench.UserError`, whose text says what is wrong and how to mend it.
"""


def site(root: Path, scale: str = "quick") -> None:
    """Write scratch/site/, of which `make site` makes results/site/.

    root: the checkout.
    scale: the scale of the finished run whose figures the gallery shows.

    Raises UserError where a link leads nowhere, or a figure or what a work claims is missing.
    """
    records = Records(root)
    shown, pictures = sources.gallery(root, records.works, records.experiments, scale, records.card)
    made = {f"{sources.MANUAL}/{name}": text for name, text in pages(root).items()}
    named = (f"::: {module}.{name}\n    options: {{heading_level: 2}}\n" for name, module in PUBLIC.items())
    made[f"{sources.MANUAL}/api.md"] = "\n".join([API, *named])
    made |= sources.printed(records.works, records.card) | shown
    sources.write(root, made, pictures, root / "scratch/site")
