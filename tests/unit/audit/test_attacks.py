"""The attacks of an audit: the catalogue's, with these parameters, each within its share of the budget."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from clients import client_of, convolutional, frozen, mlp, observed, pictures
from skimage.data import astronaut
from torch import Tensor, nn
from torch._C import _len_torch_function_stack
from torch.overrides import TorchFunctionMode

import leakbench.attacks
from leakbench.audit import attacks, findings
from leakbench.audit.attacks import attack, catalogue
from leakbench.audit.audit import of_client
from leakbench.audit.client import Truth, client, view
from leakbench.audit.findings import READ, RECOGNISABLE, Attempt
from leakbench.audit.inference import inferences
from leakbench.base.alarm import OutOfTime, within
from leakbench.base.errors import UserError
from leakbench.base.parts import SECTIONS
from leakbench.catalogue.load import validate
from leakbench.observations.observation import Observation

COSINE, SMOOTH = {"cosine": {}}, {"total-variation": {"weight": 0.0001}}
WEIGHTS = {"shape": "linear", "beta": 50.0, "relu": True, "norms": "following", "order": "parameters"}
SEARCH = {
    "module": "gradient-matching", "labels": "counted", "unknowns": {"dummies": {"boxed": True}},
    "optimiser": {"adam": {"lr": 0.1, "signed": True, "decay": True}},
}  # fmt: skip
FROZEN = {"derivative": "frozen"}
AGIC = {
    "objective": COSINE | {"layer-weights": WEIGHTS} | SMOOTH, "parameters": {"updates": "one-batch"} | FROZEN
}  # fmt: skip
ATTACKS: dict[str, dict[str, Any]] = {
    "fidel": {"module": "fidel"},
    "peel": {"module": "peel"},
    "spear": {"module": "spear", "parameters": {"peel": True}},
    "invg": SEARCH | {"objective": COSINE | SMOOTH, "parameters": {"updates": "simulated"} | FROZEN},
    "agic": SEARCH | AGIC,
}


def test_the_attacks_are_these_in_this_order_with_these_parameters() -> None:
    assert list(catalogue()) == list(ATTACKS)
    for name, about in catalogue().items():
        meant = validate("attacks", "", name, ATTACKS[name] | {"summary": ""}).model_dump(mode="json")
        same = ("module", "parameters", "labels", "adaptive", "generator", *SECTIONS)
        assert {key: about.entry[key] for key in same} == {key: meant[key] for key in same}
        # The order in which terms are added decides the last digits of a loss.
        assert [list(about.entry[key]) for key in SECTIONS] == [list(meant[key]) for key in SECTIONS]


def test_a_search_runs_beside_noise_within_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = observed(convolutional().eval(), pictures(1))
    found = attack("invg", *seen, 300, longest=120)
    assert (found.trials >= 3, found.iterations, found.interval is None) == (True, 120, False)
    # A hundredth of a second: no machine finishes a hundred iterations of three trials in it.
    short = attack("invg", *seen, 0.01)
    assert (short.levels, "budget" in short.why_not) == ([0], True)
    # A limit of no time is not a missing limit.
    assert all("budget" in attack(name, *observed(mlp(200)), -1.0).why_not for name in ("spear", "invg"))
    # A search that its share is too short for takes what is left of the budget, and no more than it needs.
    # It may take twice the time that its first steps foretell. They foretell 33 s here, so that the search is
    # not ended where a machine stalls for a second.
    told = attacks._cost(attacks.catalogue()["invg"].entry, seen[0])
    monkeypatch.setattr(attacks, "_cost", lambda entry, observation: (1.0, 0.1, told[-1]))
    whole = attack("invg", *seen, 0.01, 300)
    assert (whole.iterations, whole.trials, whole.why_not) == (100, 3, "")


@pytest.mark.parametrize(("longer", "kept", "took"), [(300, 300, 1.0), (80, 100, 1.0), (300, 100, 50.0)])
def test_the_best_search_has_the_rest(
    longer: int, kept: int, took: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, float]] = []

    def searched(name: str, *given: Any, longest: int = 0, often: int = 3) -> Attempt:
        assert often == 3
        if catalogue()[name].stage == "exact":
            return attack(name, *given)
        asked.append((name, given[2]))
        again = len(asked) == 3
        quality = [0.2, 0.3] if name == "agic" else [0.1, 0.3]
        return Attempt(
            name, name, "matching", "C", "", 2, [0, 0], trials=3, iterations=longer if again else 100,
            quality=quality, seconds=took,
        )  # fmt: skip

    monkeypatch.setattr("leakbench.audit.audit.attack", searched)
    lines: list[str] = []
    found = of_client(client_of(convolutional().eval(), pictures(2)), 60, lines.append)
    # Only if that leaves half as much again. Then the same search runs where the answer is known.
    assert [name for name, _ in asked] == ["invg", "agic", "agic", "agic"][: 3 if took > 40 else 4]
    told = found.besides[-1]
    assert told.title == "the same search where the answer is known"
    assert f"{told.title}: {told.line}" in found.headline()
    # The share of what would help comes on top.
    assert all(seconds > 0.3 * 60 for _, seconds in asked[2:3])
    assert [each.iterations for each in found.found[3:]] == [100, kept]
    assert any("rest of the budget" in line for line in lines) == (longer == kept)


@pytest.mark.parametrize("shape", [(1, 12, 12), (30, 1, 1)])
def test_a_search_reads_where_the_answer_is_known(shape: tuple[int, ...]) -> None:
    images = (
        torch.linspace(0, 1, 12).outer(torch.linspace(0, 1, 12)).flatten()[-prod(shape) :].view(1, *shape)
    )
    found = attack("invg", *attacks.easy(Truth(images, torch.zeros(1))), 60, longest=300, often=1)
    assert (found.count(RECOGNISABLE), found.iterations, found.trials) == (1, 300, 1)


def test_trials_take_turns_with_weights_and_steps() -> None:
    entry = catalogue()["invg"].entry
    turns = [attacks._turned(entry, turn) for turn in range(6)]
    both = {
        (each["objective"]["total-variation"]["weight"], each["optimiser"]["adam"]["lr"]) for each in turns
    }
    assert both == set(product([1e-4, 1e-3, 1e-2], [0.1, 0.03]))
    assert turns[0] == entry


@pytest.mark.parametrize("room", [True, False])
def test_where_time_is_short_one_record_is_tried(room: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def searched(name: str, observation: Observation, *given: Any) -> Attempt:
        if catalogue()[name].stage == "exact":
            return attack(name, observation, *given)
        (records,) = observation.clients
        sizes.append(records)
        if records == 1 and not room:
            raise UserError("the model cannot be copied")
        return Attempt(name, name, "matching", "C", "", records, [0] * records, why_not="no time")

    monkeypatch.setattr("leakbench.audit.audit.attack", searched)
    found = of_client(client_of(convolutional().eval(), pictures(2)), 60, lambda line: None)
    assert sizes == [2, 2, 1]
    assert (found.besides[-1].title == "one record alone") == room


def ramp() -> tuple[Tensor, Tensor]:
    slope = torch.linspace(0, 1, 8)
    return (slope[:, None] * slope)[None, None], torch.tensor([1])


def test_a_search_matches_only_what_was_sent_and_seeks_the_labels_that_nothing_counts() -> None:
    """Behind a frozen convolution AGIC finds what it finds without one."""
    torch.manual_seed(0)
    first, last = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
    network = nn.Sequential(first, nn.Sigmoid(), last, nn.Sigmoid(), nn.Flatten(), nn.Linear(512, 4))
    found = attack("agic", *observed(frozen(network, "0.weight", "0.bias"), ramp()), 60, longest=100)
    assert (found.why_not, found.count(RECOGNISABLE)) == ("", 1)
    network = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.Sigmoid(), nn.Conv2d(8, 4, 8), nn.Flatten())
    found = attack("invg", *observed(network, ramp()), 60, longest=100)
    assert (found.why_not, found.sought, found.trials >= 3) == ("", True, True)
    assert found.line().endswith("which seek the labels too")


@pytest.mark.parametrize("output", ["a single logit", "a class for each pixel"])
def test_a_network_whose_output_is_reshaped_is_searched(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks, "FEWEST", 5)
    torch.manual_seed(0)
    network, inputs = nn.Sequential(nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 1)), torch.rand(2, 12)
    loss, targets = nn.BCEWithLogitsLoss(), torch.tensor([[0.0], [1.0]])
    if output == "a class for each pixel":
        network, inputs = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1)), pictures(2)[0]
        loss, targets = nn.CrossEntropyLoss(), (inputs[:, 0] > 0.5).long()  # type: ignore[assignment]
    found = attack("invg", *observed(network, (inputs, targets), loss=loss), 0.01, 300, longest=5)
    assert (found.why_not, found.trials >= 3) == ("", True)


@pytest.mark.parametrize(("each", "searched"), [(0.02, (3, 100)), (0.08, (1, 100)), (1.0, (1, 22))])
def test_a_search_is_as_long_as_there_is_time_for(
    each: float, searched: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that tells how long an iteration takes is the search where there is no time for another, and
    what it reads stays where the trials read less."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(72, 4))
    seen = observed(network, ramp())
    made = attacks._cost(catalogue()["invg"].entry, seen[0])[-1]
    made.images[0, 0] = ramp()[0]
    monkeypatch.setattr(attacks, "_cost", lambda *_: (0.0, each, made))
    monkeypatch.setattr(attacks, "interval", lambda gains: (1.0, 1.0))
    # No time passes, so no machine is too busy.
    monkeypatch.setattr(attacks.time, "perf_counter", lambda: 0.0)
    for room in (attacks, findings):
        monkeypatch.setattr(room, "within", lambda seconds: nullcontext())
    found = attack("invg", *seen, 0.01, 10)
    assert (found.trials, found.iterations, found.why_not) == (*searched, "")
    assert (found.count(READ), found.quality) == (1, [1.0])


def test_an_audit_takes_it_for_granted_that_zeros_tell_nothing() -> None:
    network = mlp(40, 20)
    last = [each for each in network.modules() if isinstance(each, nn.Linear)][-1]
    nn.init.zeros_(last.weight)
    found = of_client(client_of(network, 40, records=8), 5, lambda line: None)
    (told,) = (each for each in found.assumptions if "an update of zero" in each)
    assert told.startswith("4 of 6 tensors")


def test_members_that_dropout_hides_are_not_counted() -> None:
    seen = observed(nn.Sequential(nn.Flatten(), nn.Dropout(0.9), *mlp(400)[1:]), 8)  # type: ignore[index]
    *_, found = inferences(seen[0], replace(seen[1], others=torch.rand(3, 1, 25, 25)))
    assert (found.title, found.ran, "dropout changes" in found.line) == ("membership", False, True)


def test_labels_and_members_are_found() -> None:
    found = of_client(client_of(mlp(200), 40, records=8, steps=2), 5, lambda line: None)
    told = {each.title: each.line for each in found.besides}
    # Seven of these eight pictures are faces, so four of each class are right of five.
    assert told["label counts"] == "8 of 8 labels are right (5 by guessing all classes equally often)"
    assert told["membership"].startswith("8 of 8 records are recognised as members, and 0 of 32")


@pytest.mark.parametrize(
    ("rule", "bias"),
    [("counted", True), ("counted", False), ("llg", True), ("llg", False), ("zlg", True), ("ilrg", True)],
)
def test_labels_are_counted_behind_a_single_logit(rule: str, bias: bool) -> None:
    """As of the network with two scores that says the same: 0 and the logit."""
    torch.manual_seed(0)
    inputs, targets = torch.rand(12, 20), torch.tensor([1.0] * 10 + [0.0] * 2)
    one = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 1, bias=bias))
    two = nn.Sequential(deepcopy(one[0]), nn.ReLU(), nn.Linear(30, 2, bias=bias))
    two[2].load_state_dict({n: torch.cat([0 * value, value]) for n, value in one[2].state_dict().items()})
    found = []
    for network, loss in ((one, nn.BCEWithLogitsLoss()), (two, nn.CrossEntropyLoss())):
        own = inputs, targets[:, None] if network is one else targets.long()
        observation, _ = observed(network, own, loss=loss)
        entry = {"module": "labels", "parameters": {}, "labels": rule}
        made = leakbench.attacks.run(
            entry, replace(observation, labelling=rule), torch.Generator().manual_seed(0)
        )
        assert made.labels is not None
        found.append(sorted(made.labels[0, 0].tolist()))
    assert found[0] == found[1]
    if rule == "counted" and bias:
        assert found[0] == [0, 0, *[1] * 10]


def test_no_library_catches_the_end_of_the_time() -> None:
    with suppress(OutOfTime), within(0.05):
        with suppress(Exception):
            time.sleep(60)
        pytest.fail("the alarm was caught")


def test_what_a_context_changes_is_put_back_when_the_time_ends_within_it() -> None:
    """An alarm may ring while a context begins or ends: a mode of torch would stay on for good."""

    class Slow(TorchFunctionMode):
        def __enter__(self) -> "Slow":
            super().__enter__()
            os.kill(os.getpid(), signal.SIGALRM)
            time.sleep(0.001)
            return self

        def __exit__(self, *problem: Any) -> None:
            os.kill(os.getpid(), signal.SIGALRM)
            time.sleep(0.001)
            super().__exit__(*problem)

    @contextmanager
    def without_gradients() -> Iterator[None]:
        torch.set_grad_enabled(False)
        os.kill(os.getpid(), signal.SIGALRM)
        yield
        os.kill(os.getpid(), signal.SIGALRM)
        torch.set_grad_enabled(True)

    for context in (Slow, without_gradients):
        for _ in range(2):
            with suppress(OutOfTime), within(60):
                with context():
                    pass
                time.sleep(60)
                pytest.fail("the alarm never rang")
        assert torch.is_grad_enabled()
        assert _len_torch_function_stack() == 0


def test_an_alarm_that_python_ignores_rings_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised while an object is deleted goes nowhere, and of an alarm nobody need be told."""
    ignored = []
    monkeypatch.setattr("sys.unraisablehook", lambda problem: ignored.append(problem.exc_type))
    monkeypatch.setattr("leakbench.base.alarm.AGAIN", 0.05)

    class Slow:
        def __del__(self) -> None:
            time.sleep(60)

    class Broken:
        def __del__(self) -> None:
            raise ValueError

    with suppress(OutOfTime), within(0.05):
        Broken()
        Slow()
        time.sleep(60)
        pytest.fail("the alarm never rang")
    assert ignored == [ValueError]


def test_a_stopped_attack_leaves_no_module_half_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_module.py").write_text("import time\n\ntime.sleep(0.3)\nwhole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    with suppress(OutOfTime), within(0.05):
        import_module("slow_module")
        time.sleep(60)
        pytest.fail("the alarm never rang")
    assert sys.modules.pop("slow_module").whole


@pytest.mark.nightly
def test_a_small_convolutional_network_gives_its_photograph_away() -> None:
    """A search whose total variation weighs 1e-4 alone does not recognise it (r = 0.60)."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(2048, 10),
    )  # fmt: skip
    photograph = torch.from_numpy(astronaut()[:256, 96:352] / 255).float().permute(2, 0, 1)[None]
    batch = nn.functional.interpolate(photograph, (32, 32), mode="area"), torch.tensor([3])
    played = client((network, nn.CrossEntropyLoss(), batch), local_steps=1).play()
    assert attack("invg", *view(played), 60).levels == [RECOGNISABLE]
