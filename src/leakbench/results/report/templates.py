"""The templates of a package, as every page uses them."""

from jinja2 import Environment, PackageLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup


def environment(package: str) -> Environment:
    """Return the environment that renders the templates of `package`, such as "leakbench.results.report"."""
    made = Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Markdown with tables becomes HTML. HTML within it is escaped.
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    made.filters["markdown"] = lambda text: Markup(markdown.render(text))
    return made
