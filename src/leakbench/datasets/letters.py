"""Letters of a hospital about people whom the package faker invents, as sentences of tokens."""

from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field

from leakbench.datasets.canonical import Found
from leakbench.datasets.official import Unavailable
from leakbench.datasets.text import cut, words

LETTER = """{doctor}, {clinic}. Dear {name}, born on {birth}, of {address}. You came to us on {visit}
because of {complaint}, and we found {finding}. Your next visit is on {next}. Please call {phone} if you
cannot come. A copy goes to {relative}, {relation}."""
COMPLAINTS = (
    "pain in the chest",
    "a cough",
    "fever",
    "headaches",
    "a rash",
    "loss of weight",
    "trouble sleeping",
)
FINDINGS = "asthma", "diabetes", "nothing unusual", "high blood pressure", "an infection", "an old fracture"
RELATIONS = "your mother", "your father", "your partner", "your sister", "your brother", "your lawyer"


def letters(
    folder: Path,
    *,
    letters: Annotated[int, Field(ge=2)] = 4000,
    length: Annotated[int, Field(ge=3)] = 16,
    vocabulary: Annotated[int, Field(ge=2)] = 2048,
    held_out: Annotated[int, Field(ge=2)] = 5,
    seed: Annotated[int, Field(ge=0)] = 0,
) -> Found:
    """Draw letters and cut them as `datasets.text` does.

    letters: the number of letters.
    length: the number of tokens of a sentence.
    vocabulary: the number of different tokens.
    held_out: every letter whose position is a multiple of this number goes to the split `test`.
    seed: of the draw; the letters also depend on the version of faker.

    Raises Unavailable without faker.
    """
    try:
        from faker import Faker
    except ImportError as lacking:
        raise Unavailable("faker is not installed (install leakbench[text])") from lacking
    faker = Faker("en_GB")
    faker.seed_instance(seed)

    def day(first: int, last: int) -> str:
        # Not faker's ages, which depend on today.
        return f"{faker.date_between(date(first, 1, 1), date(last, 12, 31)):%d %B %Y}"

    made = [
        LETTER.format(
            doctor=faker.name(), clinic=f"{faker.city()} hospital", name=faker.name(),
            birth=day(1930, 2015), address=faker.address(), visit=day(2024, 2025),
            complaint=faker.random_element(COMPLAINTS), finding=faker.random_element(FINDINGS),
            next=day(2026, 2026), phone=faker.phone_number(), relative=faker.name(),
            relation=faker.random_element(RELATIONS),
        )
        for _ in range(letters)
    ]  # fmt: skip
    return cut(folder, [words(each) for each in made], length, vocabulary, held_out)
