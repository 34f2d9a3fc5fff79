"""The templates of a package, as every page uses them."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def environment(package: str) -> Environment:
    """Return the environment that renders the templates of `package`, such as "leakbench.results.report".

    The templates lie beside the code of the package. Values are escaped, and a name that was not given is an
    error.
    """
    return Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
