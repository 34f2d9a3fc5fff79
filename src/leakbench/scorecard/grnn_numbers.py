"""Findings for the numbers and settings of chapter 3 of Ren's thesis: Tables 3.4, 3.6, 3.13 and 3.16 and the text."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

from leakbench.scorecard import grnn_evidence as grnn
from leakbench.scorecard.evidence import Evidence
from leakbench.scorecard.look import Build, Look, Quantity, minus, not_measured, number
from leakbench.scorecard.measure import Measured, average, deviation, scaled, select
from leakbench.scorecard.verdict import Finding

# Attack, victim, data set as printed, size of the batch.
Cell = tuple[str, str, str, int]
# Rows of the tables, in the thesis' order.
SINGLE = (("dlg", grnn.LENET), ("grnn", grnn.LENET), ("grnn-resnet18", grnn.RESNET))
NOT_RUN = "not run by the source either"
# A deviation is printed as a fraction; as far from it as the means, half a point.
NEAR = 0.005
OVER = "population's deviation over updates, as 0.075 for one wrong label in ten batches of four tells"
WRAP = "8-bit wrap-around PSNR, in which the printed values are read"
# Where no image came out, the thesis prints a dash.
NO_IMAGE = {("dlg", "MNIST", "converged"), ("dlg", "LFW", "converged")}


def _table_3_4() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    cells = product(SINGLE, grnn.DATASETS, grnn.STATES)
    for place, ((attack, victim), dataset, state) in enumerate(cells, 1):
        key = f"thesis.table-3-4.{place}"
        cell = partial(grnn.single, attack, victim, dataset)
        if (attack, dataset, state) in NO_IMAGE:
            rows[key] = grnn.recognised(partial(cell, state))
            continue
        other = "converged" if state == "non-converged" else "non-converged"
        # The converged network is worse, but for ResNet-18 on MNIST.
        better = (state == "non-converged") != ((attack, dataset) == ("grnn-resnet18", "MNIST"))
        rows[key] = number(
            cell(state, "psnr_uint8_wrap"), "psnr_uint8_wrap", cell(other, "psnr_uint8_wrap"), better, WRAP,
            convention="published",
        )  # fmt: skip
    return rows


def _table_3_6() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    for place, ((attack, victim), dataset, size) in enumerate(
        product(SINGLE, grnn.DATASETS, grnn.BATCHES), 1
    ):
        rows[f"thesis.table-3-6.{place}"] = (
            not_measured(NOT_RUN)
            if victim == grnn.RESNET and size > 32
            else grnn.recognised(partial(grnn.batch, attack, victim, dataset, size))
        )
    return rows


def _percent(quantity: Quantity) -> Build:
    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        measured = scaled(quantity(look), 100)
        return Finding(measured, tolerance=0.5, note=look.note)

    return finding


def _over_batches(attack: str, victim: str, dataset: str) -> Quantity:
    sizes = grnn.BATCHES if victim == grnn.LENET else grnn.BATCHES[:5]
    cells = [grnn.batch(attack, victim, dataset, size, "label_accuracy") for size in sizes]
    return lambda look: average([cell(look) for cell in cells])


def _deviation(cells: Sequence[Cell]) -> Build:
    """The deviation of label accuracy over updates; of several conditions the mean of theirs, as the thesis has it."""

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        found = [spread(look, *cell) for cell in cells]
        note = "; ".join(filter(None, [OVER, look.note]))
        return Finding(average(found), tolerance=NEAR, convention="published", note=note)

    return finding


def spread(look: Look, attack: str, victim: str, dataset: str, size: int) -> Measured:
    """The deviation of label accuracy over the updates of a condition, as a fraction."""
    # The mean's own reading refuses what is absent, and remembers how far the attack got.
    mean = grnn.batch(attack, victim, dataset, size, "label_accuracy")(look)
    experiment, where = grnn.place(attack, victim, dataset, size)
    table = look.evidence.table(experiment)
    rows = select(table, f"table {experiment}", metric="label_accuracy", **where)
    # Every image of an update has the update's accuracy, and n counts images.
    return deviation(float(rows.iloc[0]["std"]), mean.n // size)


def _table_3_13() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    columns: tuple[int | None, ...] = (*grnn.BATCHES, None)
    for place, ((attack, victim), dataset, size) in enumerate(product(SINGLE, grnn.DATASETS, columns), 1):
        key = f"thesis.table-3-13.{place}"
        if victim == grnn.RESNET and size is not None and size > 32:
            rows[key] = not_measured(NOT_RUN)
            continue
        rows[key] = _percent(
            _over_batches(attack, victim, dataset)
            if size is None
            else grnn.batch(attack, victim, dataset, size, "label_accuracy")
        )
        sizes = (grnn.BATCHES if victim == grnn.LENET else grnn.BATCHES[:5]) if size is None else (size,)
        rows[f"{key}-std"] = _deviation([(attack, victim, dataset, each) for each in sizes])
    return rows


KINDS = {"Gaussian": "gaussian", "Laplacian": "laplacian"}
SCALES = ("1e-1", "1e-2", "1e-3", "1e-4")
# How far down the scales no image came out, by data set, kind and batch: the thesis prints a cross.
FAILURES = {
    ("MNIST", "Gaussian", 1): 0, ("MNIST", "Gaussian", 4): 1, ("MNIST", "Gaussian", 8): 1, ("MNIST", "Gaussian", 16): 2,
    ("MNIST", "Laplacian", 1): 0, ("MNIST", "Laplacian", 4): 1, ("MNIST", "Laplacian", 8): 2, ("MNIST", "Laplacian", 16): 2,
    ("CIFAR-100", "Gaussian", 1): 1, ("CIFAR-100", "Gaussian", 4): 2, ("CIFAR-100", "Gaussian", 8): 2,
    ("CIFAR-100", "Gaussian", 16): 3, ("CIFAR-100", "Laplacian", 1): 1, ("CIFAR-100", "Laplacian", 4): 2,
    ("CIFAR-100", "Laplacian", 8): 2, ("CIFAR-100", "Laplacian", 16): 4, ("LFW", "Gaussian", 1): 1,
    ("LFW", "Gaussian", 4): 2, ("LFW", "Gaussian", 8): 4, ("LFW", "Gaussian", 16): 4, ("LFW", "Laplacian", 1): 1,
    ("LFW", "Laplacian", 4): 2, ("LFW", "Laplacian", 8): 4, ("LFW", "Laplacian", 16): 4,
}  # fmt: skip


def _table_3_16() -> dict[str, Build]:
    rows: dict[str, Build] = {}
    place = 0
    for attack, sizes in (("dlg", (1, 4)), ("grnn", (1, 4, 8, 16))):
        for dataset, kind, size, (step, scale) in product(grnn.DATASETS, KINDS, sizes, enumerate(SCALES)):
            place += 1
            cell = partial(grnn.noise, attack, dataset, KINDS[kind], scale, size)
            failed = attack == "dlg" or step < FAILURES[dataset, kind, size]
            weaker = partial(grnn.noise, attack, dataset, KINDS[kind], SCALES[min(step + 1, 3)], size)
            rows[f"thesis.table-3-16.{place}"] = (
                grnn.recognised(lambda metric, cell=cell: cell(metric=metric))  # type: ignore[misc]
                if failed
                else number(
                    cell(metric="psnr_uint8_wrap"),
                    "psnr_uint8_wrap",
                    None if step == 3 else weaker(metric="psnr_uint8_wrap"),
                    False,
                    WRAP,
                    convention="published",
                )
            )
    return rows


def _difference(a: Callable[[str], Quantity], b: Callable[[str], Quantity]) -> Build:
    """A printed difference of decibels, of which 0.5 either way is within what single runs differ by."""

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        measured = minus(a("psnr_uint8_wrap"), b("psnr_uint8_wrap"))(look)
        return Finding(
            measured, tolerance=0.5, convention="published", note="; ".join(filter(None, [WRAP, look.note]))
        )

    return finding


def _gap(dataset: str) -> Build:
    of = partial(grnn.single, victim=grnn.LENET, dataset=dataset, state="non-converged")
    return _difference(lambda m: of("grnn", metric=m), lambda m: of("dlg", metric=m))


def _largest(attack: str, dataset: str) -> Build:
    """The largest batch at which an attack succeeds."""

    def finding(evidence: Evidence) -> Finding:
        won = [0]
        for size in grnn.BATCHES:
            found = grnn.recognised(partial(grnn.batch, attack, grnn.LENET, dataset, size))(evidence)
            won += [size] if found.measured == "success" else []
        return Finding(str(max(won)))

    return finding


def _converged_gain() -> Build:
    of = partial(grnn.single, "grnn-resnet18", grnn.RESNET, "MNIST")
    return _difference(partial(of, "converged"), partial(of, "non-converged"))


def _versus(dataset: str) -> Build:
    """PSNR under the weakest Gaussian noise, and without any, as the text prints them."""

    def finding(evidence: Evidence) -> Finding:
        look = Look(evidence)
        weakest, none = (
            grnn.noise("grnn", dataset, *kind, metric="psnr_uint8_wrap")(look).value
            for kind in (("gaussian", "1e-4"), ("none", ""))
        )
        return Finding(
            f"{weakest:.2f} vs {none:.2f}",
            convention="published",
            note="; ".join(filter(None, [WRAP, look.note])),
        )

    return finding


def _setting(*keys: str) -> Build:
    """A value of our catalogue."""
    return lambda evidence: Finding(f"{evidence.fact(*keys):g}")


NUMBERS: dict[str, Build] = {
    **_table_3_4(),
    **_table_3_6(),
    **_table_3_13(),
    **_table_3_16(),
    "thesis.text-3-3-2.1": _converged_gain(),
    "thesis.text-3-3-2.2": _gap("MNIST"),
    "thesis.text-3-3-2.3": _gap("LFW"),
    "thesis.text-3-3-2.4": _gap("CIFAR-100"),
    "thesis.text-3-3-2-1.1": _largest("grnn", "MNIST"),
    "thesis.text-3-3-2-1.2": _largest("grnn", "CIFAR-100"),
    "thesis.text-3-3-2-1.3": _largest("grnn", "LFW"),
    "thesis.text-3-3-2-1.4": _largest("dlg", "MNIST"),
    "thesis.text-3-3-3.1": _percent(grnn.batch("grnn", grnn.LENET, "LFW", 256, "label_accuracy")),
    "thesis.text-3-3-3.2": _percent(grnn.batch("dlg", grnn.LENET, "LFW", 256, "label_accuracy")),
    "thesis.text-3-3-3.3": _setting("federations", "grnn", "rounds"),
    "thesis.text-3-3-1.1": _setting("images", "mnist-32"),
    "thesis.text-3-3-1.2": _setting("attacks", "grnn", "lr"),
    "thesis.text-3-3-1.3": _setting("attacks", "grnn", "momentum"),
    "thesis.text-3-3-1.4": _setting("attacks", "grnn", "tv"),
    "thesis.text-3-3-1.5": _setting("attacks", "grnn-resnet18", "tv"),
    "thesis.text-3-3-5.1": _versus("MNIST"),
    "thesis.text-3-3-5.2": _versus("LFW"),
    "thesis.text-3-3-5.3": not_measured(
        "our noise states no privacy budget, so that no sensitivity enters it"
    ),
    "thesis.text-3-3-2.5": _setting("settled", f"{grnn.LENET}-converged"),
}
