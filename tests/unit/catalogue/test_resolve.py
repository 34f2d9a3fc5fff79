"""From experiments and a scale to cells and their specs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from planning import MATCHING, METRICS, capping, planned

from leakbench.catalogue.load import attack_of
from leakbench.catalogue.resolve import Plan, plan
from leakbench.catalogue.settings import run_name
from leakbench.errors import UserError
from leakbench.parts import parts_of

# Of the small catalogue's cells, one attack on one capture.
OTHER = {
    "item": "i", "title": "t", "shows": "s", "metrics": ["mse"],
    "figure": {"drawing": "dots", "metrics": ["mse"]},
    "cells": [{"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["b"]}],
}  # fmt: skip


def test_cells_are_the_product_of_names_and_seeds(root: Callable[..., Path]) -> None:
    found = planned(root())
    assert len(found.cells) == 2 * 2 * 2
    assert found.cells == sorted(found.experiments["e"])
    kinds = {name.partition("/")[0] for name in found.specs}
    assert kinds == {"fetch", "train", "capture", "attack", "score", "table", "figure", "scorecard"}
    assert sum(name.startswith("train/") for name in found.specs) == 4
    assert sum(name.startswith("capture/") for name in found.specs) == 4
    assert found.specs["attack/d/v-tanh/f/none/b/1"]["seed"] == 1
    assert found.specs["train/d/v-tanh/1"]["victim"]["parameters"]["activation"] == "tanh"


def test_a_cell_asked_for_twice_is_one_row(root: Callable[..., Path]) -> None:
    cells = {"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["a"]}
    found = planned(root({"experiments/e": {"cells": [cells, cells]}}))
    assert len(found.experiments["e"]) == len(set(found.experiments["e"])) == 2
    assert len(found.specs["table/e"]["cells"]) == 2


def test_experiments_that_share_a_cell_add_up_their_metrics(root: Callable[..., Path]) -> None:
    from_e = {
        "item": "i",
        "title": "t",
        "shows": "s",
        "figure": {"drawing": "dots", "metrics": ["mse"]},
    }
    cells = [{"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["a"]}]
    found = planned(root({"experiments/g": {**from_e, "cells": cells, "metrics": ["pearson"]}}))
    assert found.specs["score/d/v/f/none/0"]["attacks"]["a"]["metrics"] == ["mse", "pearson"]
    assert found.specs["score/d/v/f/none/0"]["attacks"]["b"]["metrics"] == ["mse"]
    assert len(found.cells) == 8


def test_whoever_asks_for_an_experiment_runs_every_attack_on_its_captures(root: Callable[..., Path]) -> None:
    found = planned(root({"experiments/other": OTHER}))
    own, beside = found.needed("other"), found.run_for("other")
    assert beside - own == {"attack/d/v/f/none/a/0"}
    assert own < beside
    assert found.run_for("e") == found.needed("e")


def test_only_one_experiment_runs_as_it_does_among_all(root: Callable[..., Path]) -> None:
    place = root({"experiments/other": OTHER})
    among, alone = planned(place), plan(place, "quick", METRICS, only=["other"])
    assert alone.run_for("other") == alone.needed("other") == among.needed("other")
    assert {n: alone.specs[n] for n in alone.needed("other")} == {
        n: among.specs[n] for n in among.needed("other")
    }
    assert alone.experiments["e"] == []
    assert alone.specs["table/e"]["left_out"].startswith("another experiment")
    with pytest.raises(UserError, match=r"--config only: no experiment 'othre' \(did you mean 'other'"):
        plan(place, "quick", METRICS, only=["othre"])


def test_a_judge_is_trained_on_the_cells_data_though_no_cell_attacks_it(root: Callable[..., Path]) -> None:
    cells = [{"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["a", "b"]}]
    more = {"cells": cells, "metrics": ["mse", "told"]}
    found = planned(
        root({"experiments/e": more, "scales/quick": {"caps": {"victims": {"v-*": {"training.epochs": 3}}}}})
    )
    assert {cell.victim for cell in found.cells} == {"v"}
    assert found.specs["score/d/v/f/none/1"]["judges"] == ["v-tanh"]
    own, judge = found.specs["train/d/v/1"], found.specs["train/d/v-tanh/1"]
    assert judge["victim"]["training"]["epochs"] == 3
    assert judge["victim"]["parameters"]["activation"] == "tanh"
    assert judge["dataset"] == own["dataset"]


def test_without_a_metric_that_asks_there_is_no_judge(root: Callable[..., Path]) -> None:
    found = planned(root())
    assert all(spec["judges"] == [] for name, spec in found.specs.items() if name.startswith("score/"))


def test_a_judge_must_be_trained(root: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match=r"e\.yaml: metrics: judge 'v-raw' is not trained"):
        planned(root({"experiments/e": {"metrics": ["asked"]}}))


def test_what_does_not_change_a_result_is_not_in_a_spec(root: Callable[..., Path]) -> None:
    specs = planned(root()).specs
    # A figure's page shows titles and summaries.
    others = json.dumps({name: spec for name, spec in specs.items() if name != "figure/e"})
    assert "summary" not in others
    assert '"title"' not in others


def test_a_figure_knows_the_title_of_each_part(root: Callable[..., Path]) -> None:
    variants = {"tanh": {"parameters": {"activation": "tanh"}}, "raw": {"training": None}}
    titled = {
        "title": "net of {activation}, {variant}",
        "parameters": {"activation": "relu"},
        "variants": variants,
    }
    parts = planned(root({"victims/v": titled})).specs["figure/e"]["parts"]
    assert [part["title"] for part in parts["victim"]] == ["net of relu", "net of tanh, tanh"]
    assert [part["title"] for part in parts["dataset"]] == ["d"]


@pytest.mark.parametrize("title", ["{none}", "{activation.x}", "{", "{training[0]}"])
def test_a_title_that_cannot_be_filled_in_is_one_line(title: str, root: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match=r"v\.yaml: title: cannot be filled in for 'v'"):
        planned(root({"victims/v": {"title": title}}))


def test_no_attack_spec_tells_the_truth(root: Callable[..., Path]) -> None:
    spec = planned(root()).specs["attack/d/v/f/none/a/0"]
    assert set(spec) == {"attack", "attack_name", "null_rounds", "seed"}


def test_unchanged_specs_are_not_written_again(root: Callable[..., Path]) -> None:
    place = root()
    planned(place).write(place)
    files = {path: path.stat().st_mtime_ns for path in place.rglob("*.json")}
    assert len(files) == len(planned(place).specs)
    planned(place).write(place)
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*.json")} == files
    damaged = place / "results/quick/specs/attack/d/v/f/none/a/0.json"
    whole = damaged.read_text()
    damaged.write_text(whole[:20])
    planned(place).write(place)
    assert damaged.read_text() == whole


def test_fetch_specs_are_those_of_every_scale(root: Callable[..., Path]) -> None:
    place = root({"scales/paper": {"summary": "x", "null_rounds": 9}})
    for scale in ("quick", "paper"):
        plan(place, scale, METRICS).write(place)
    assert [path.name for path in (place / "data" / "specs").iterdir()] == ["d.json"]
    assert not list(place.glob("results/*/specs/fetch"))


def test_a_local_folder_is_part_of_what_fetches(root: Callable[..., Path]) -> None:
    place = root()
    assert plan(place, "quick", METRICS, frozenset({"d"})).specs["fetch/d"]["local"] is True
    assert planned(place).specs["fetch/d"]["local"] is False


def shares_of(plan: Plan) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = plan.spec("table/e")["shares"]
    return found


@pytest.mark.parametrize(("epochs", "images", "share"), [(3, 20, 0.033333), (30, 20, 0.333333), (30, 70, 1)])
def test_a_table_is_told_how_long_a_victim_was_trained(
    epochs: int, images: int, share: float, root: Callable[..., Path]
) -> None:
    caps = {"victims": {"v-*": {"training.epochs": epochs, "training.images": images}}}
    found = shares_of(planned(root(capping(caps))))
    # Of thirty epochs on sixty images; the other victim is trained as long as the catalogue says.
    stems = [f"d/v-tanh/f/none/{attack}/{seed}" for attack in "ab" for seed in (0, 1)]
    assert found == ({} if share == 1 else {stem: {"victim": share} for stem in stems})


def test_an_untrained_victim_was_trained_as_long_as_the_catalogue_says(root: Callable[..., Path]) -> None:
    cells = [{"dataset": ["d"], "victim": ["v-raw"], "federation": ["f"], "attack": ["a"]}]
    more = {"federations/f": {"checkpoints": [0]}, "experiments/e": {"cells": cells}}
    assert shares_of(planned(root(more | capping({"victims": {"v": {"training.epochs": 3}}})))) == {}


def test_a_table_is_told_how_long_a_generator_was_trained(root: Callable[..., Path]) -> None:
    generator = {
        "summary": "x", "module": "cvae", "reads": "latent", "validation": 0.2,
        "auxiliary": {"split": "train", "start": 0, "stop": 50},
        "training": {"optimiser": "adam", "lr": 0.1, "batch_size": 5, "epochs": 10},
    }  # fmt: skip
    cells = [{"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["m"]}]
    more: dict[str, dict[str, Any]] = {
        "generators/g": generator,
        "attacks/m": {"summary": "x", "module": "class-mean", "labels": "counted", "generator": {"d": "g"}},
        "experiments/e": {"cells": cells, "seeds": [0]},
    }
    found = planned(
        root(more | capping({"generators": {"g": {"training.epochs": 5, "training.images": 10}}}))
    )
    # Half of the epochs on a quarter of the forty images that are not held out.
    assert shares_of(found) == {"d/v/f/none/m/0": {"generator": 0.125}}


def test_a_federation_takes_what_a_capped_training_keeps(root: Callable[..., Path]) -> None:
    asked = {"federations/f": {"checkpoints": [0, 5, 30]}}
    found = planned(root(asked | capping({"victims": {"v*": {"training.epochs": 7}}})))
    assert found.specs["capture/d/v/f/none/0"]["federation"]["checkpoints"] == [0, 5, 7]


def test_a_checkpoint_beyond_the_whole_training_is_refused(root: Callable[..., Path]) -> None:
    asked = {"federations/f": {"checkpoints": [31]}}
    with pytest.raises(UserError, match="keeps none at epoch 31"):
        planned(root(asked | capping({"victims": {"v*": {"training.epochs": 7}}})))


@pytest.mark.parametrize(("split", "free"), [("train", 40), ("test", 20)])
def test_a_model_is_evaluated_on_test_images_that_are_not_private(
    split: str, free: int, root: Callable[..., Path]
) -> None:
    asked = {"private": {"split": split, "start": 20, "stop": 40}, "server": "fedavg", "evaluate": free}
    found = planned(root({"federations/f": asked}))
    assert found.specs["capture/d/v/f/none/0"]["federation"]["evaluate"] == free


@pytest.mark.parametrize(("split", "free"), [("train", 40), ("test", 20)])
def test_more_test_images_than_there_are_is_refused(split: str, free: int, root: Callable[..., Path]) -> None:
    asked = {"private": {"split": split, "start": 20, "stop": 40}, "server": "fedavg", "evaluate": free + 1}
    message = rf"f.yaml: evaluate: {free + 1} images are not there: d has {free} test images .*\(lower it"
    with pytest.raises(UserError, match=message):
        planned(root({"federations/f": asked}))


def test_what_a_scale_leaves_out_has_no_cells_but_is_checked(root: Callable[..., Path]) -> None:
    found = planned(root({"scales/quick": {"left_out": {"e*": "too short"}}}))
    assert found.experiments == {"e": []}
    assert found.specs["table/e"]["left_out"] == "too short"
    assert not any(name.startswith(("train/", "attack/", "score/")) for name in found.specs)


def test_cells_can_be_left_out_and_say_why(root: Callable[..., Path]) -> None:
    found = planned(root({"scales/quick": {"left_out": {"e/*/v/*": "too slow"}}}))
    assert {cell.victim for cell in found.experiments["e"]} == {"v-tanh"}
    assert len(found.experiments["e"]) == 4
    spec = found.specs["table/e"]
    assert spec["left_out"] == ""
    assert spec["cells_left_out"] == {f"d/v/f/none/{a}/{s}": "too slow" for a in "ab" for s in (0, 1)}
    assert "score/d/v/f/none/0" not in found.specs


def test_an_unknown_experiment_cannot_be_left_out(root: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="left_out: 'x' matches no experiment"):
        planned(root({"scales/quick": {"left_out": {"x": "y"}}}))


def test_leaving_an_experiment_out_hides_no_mistake_in_it(root: Callable[..., Path]) -> None:
    cells = [{"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["typo"]}]
    with pytest.raises(UserError, match="attack 'typo'"):
        planned(root({"experiments/e": {"cells": cells}, "scales/quick": {"left_out": {"e": "y"}}}))


def test_the_last_epoch_is_always_kept(root: Callable[..., Path]) -> None:
    found = planned(root({"victims/w": {"summary": "x", "module": "fcnn", "training": {
        "optimiser": "sgd", "lr": 0.1, "batch_size": 1, "epochs": 4}},
        "experiments/e": {"cells": [{"dataset": ["d"], "victim": ["w"], "federation": ["f"],
        "attack": ["a"]}]}}))  # fmt: skip
    assert found.specs["train/d/w/0"]["victim"]["training"]["checkpoints"] == [4]


def test_a_figure_knows_the_parts_in_the_order_of_the_experiment_at_full_size(
    root: Callable[..., Path],
) -> None:
    cells = [{"dataset": ["d"], "victim": ["v-tanh", "v"], "federation": ["f"], "attack": ["b", "a"]}]
    place = root(
        {
            "experiments/e": {"cells": cells},
            "attacks/b": MATCHING | {"parameters": {"iterations": 70}},
        }
    )
    (place / "config/scales/quick.yaml").write_text(
        "summary: x\nnull_rounds: 2\ncaps: {attacks: {b: {parameters.iterations: 7}}}\n"
    )
    found = planned(place)
    parts = found.specs["figure/e"]["parts"]
    assert [part["name"] for part in parts["victim"]] == ["v-tanh", "v"]
    assert [part["name"] for part in parts["attack"]] == ["b", "a"]
    assert parts["attack"][0]["parameters"]["iterations"] == 70
    assert found.specs["attack/d/v/f/none/b/0"]["attack"]["parameters"]["iterations"] == 7
    assert found.specs["figure/e"]["figure"][0]["y"] == ["attack"]


def test_a_figure_keeps_the_order_in_which_its_values_are_listed(root: Callable[..., Path]) -> None:
    columns = {"noise": {"by": "defence", "none": "0", "*-1e-2": "0.01", "else": "0.1"}}
    place = root()
    experiment = place / "papers/own/experiments/e.yaml"
    figure = {"figure": {"drawing": "dots", "metrics": ["mse"], "columns": columns}}
    experiment.write_text(yaml.safe_dump(yaml.safe_load(experiment.read_text()) | figure, sort_keys=False))
    planned(place).write(place)
    spec = json.loads((place / "results/quick/specs/figure/e.json").read_text())
    assert list(spec["figure"][0]["columns"]["noise"]) == ["by", "none", "*-1e-2", "else"]


def test_several_drawings_stand_below_each_other(root: Callable[..., Path]) -> None:
    figure = [{"drawing": "dots", "metrics": ["mse"]}, {"drawing": "grid", "most": 3}]
    found = planned(root({"experiments/e": {"figure": figure}})).specs["figure/e"]["figure"]
    assert [part["drawing"] for part in found] == ["dots", "grid"]
    assert found[1]["most"] == 3


def test_success_is_asked_of_what_is_scored(root: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="success: 'ssim' is not scored"):
        planned(root({"experiments/e": {"success": ["ssim"]}}))
    found = planned(root({"experiments/e": {"success": ["mse"]}}))
    assert found.specs["table/e"]["experiment"]["success"] == ["mse"]


def test_all_is_every_file_but_some(root: Callable[..., Path]) -> None:
    cells = {
        "dataset": ["d"],
        "victim": ["v"],
        "federation": ["f"],
        "attack": ["all"],
        "defence": ["all", "none"],
    }
    more = {"attacks/c": {"summary": "x", "module": "fidel", "variants": {"other": {}}}}
    found = planned(root(more | {"experiments/e": {"cells": [cells | {"but": ["b"]}]}}))
    assert {cell.attack for cell in found.cells} == {"a", "c"}
    assert {cell.defence for cell in found.cells} == {"none"}


def test_what_is_no_file_cannot_be_left_out_of_all(root: Callable[..., Path]) -> None:
    cells = {"dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["all"], "but": ["bb"]}
    with pytest.raises(UserError, match="but: 'bb' is no file"):
        planned(root({"experiments/e": {"cells": [cells]}}))


def test_an_attack_that_adapts_depends_on_the_defence_and_no_other_does(root: Callable[..., Path]) -> None:
    more = {
        "defences/clip": {"summary": "x", "parameters": {"norm": 1.0}},
        "attacks/a": {"adaptive": True},
        "experiments/e": {
            "cells": [
                {
                    "dataset": ["d"], "victim": ["v"], "federation": ["f"], "attack": ["a", "b"],
                    "defence": ["none", "clip"],
                }
            ]
        },
    }  # fmt: skip
    specs = planned(root(more)).specs
    told = {
        name.split("/")[4:6][0] + name.split("/")[5]: spec
        for name, spec in specs.items()
        if name.startswith("attack/")
    }
    assert told["clipa"]["adaptation"] == {"module": "clip"}
    assert all("adaptation" not in told[name] for name in ("noneb", "clipb"))
    # Without a defence it would be the other attack again.
    assert "nonea" not in told


def test_a_victim_that_defends_itself_has_its_adaptive_attacker(root: Callable[..., Path]) -> None:
    cells = {"dataset": ["d"], "victim": ["v", "precode"], "federation": ["f"], "attack": ["a"]}
    more = {
        "victims/precode": {"summary": "x"}, "attacks/a": {"adaptive": True},
        "experiments/e": {"cells": [cells]},
    }  # fmt: skip
    specs = planned(root(more)).specs
    assert specs["attack/d/precode/f/none/a/0"]["adaptation"] == {"module": "precode"}
    assert "attack/d/v/f/none/a/0" not in specs


def test_an_attack_that_plays_clients_is_told_their_defence(root: Callable[..., Path]) -> None:
    """Each of its specs has the defence of its cell, unless the attack's entry names one."""
    noisy = {"module": "gaussian", "parameters": {"scale": 0.5}}
    cells = {"dataset": ["d"], "victim": ["v"], "federation": ["f"], "defence": ["none", "g"]}
    where = root(
        {
            "defences/g": {"summary": "x", **noisy},
            "attacks/c": {"summary": "x", "module": "learned-inverter"},
            "attacks/h": {
                "summary": "x",
                "module": "learned-inverter",
                "parameters": {"defence": {"module": "sign", "parameters": {}}},
            },
            "experiments/e": {"cells": [cells | {"attack": ["a", "c", "h"]}], "seeds": [0]},
        }
    )
    specs = planned(where).specs
    told = {name: specs[f"attack/d/v/f/{name}/0"] for name in ("g/a", "none/c", "g/c", "none/h", "g/h")}
    assert "defence" not in told["g/a"]
    assert "defence" not in told["g/a"]["attack"]["parameters"]
    plain, signs = ({"module": name, "parameters": {}} for name in ("none", "sign"))
    for name, defence in (("none/c", plain), ("g/c", noisy), ("none/h", signs), ("g/h", signs)):
        assert told[name]["defence"] == told[name]["attack"]["parameters"]["defence"] == defence
    # Its code counts among what the result hangs on, and the spec is one that the attack takes.
    assert "leakbench.defences.gaussian" in parts_of(told["g/c"])
    assert attack_of(told["g/c"] | {"seed": 0}, "x")["parameters"]["defence"] == noisy


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({}, "give either weights, or auxiliary and training"),
        ({"weights": "d", "auxiliary": {"split": "train", "stop": 5}}, "give either weights"),
        ({"weights": "nowhere"}, "dataset 'nowhere' is not in"),
        (
            {
                "auxiliary": {"split": "test", "stop": 30},
                "training": {"optimiser": "adam", "lr": 0.1, "batch_size": 5, "epochs": 1},
            },
            "auxiliary images overlap the private ones",
        ),
    ],
)
def test_a_generator_of_latents_that_cannot_be_made_is_told(
    root: Callable[..., Path], keys: dict[str, Any], told: str
) -> None:
    generator = {"summary": "x", "module": "cvae", "reads": "latent", **keys}
    attack = {"summary": "x", "module": "fidel", "generator": {"d": "g"}}
    with pytest.raises(UserError, match=told) as refused:
        planned(root({"generators/g": generator, "attacks/a": attack}))
    assert "\n" not in str(refused.value)


def test_a_generator_of_latents_is_planned_once_for_all_victims(root: Callable[..., Path]) -> None:
    generator = {"summary": "x", "module": "cvae", "reads": "latent", "weights": "d"}
    attack = {"summary": "x", "module": "fidel", "generator": {"d": "g"}}
    found = planned(root({"generators/g": generator, "attacks/a": attack}))
    made = [name for name in found.specs if name.startswith("generator/")]
    assert made == ["generator/d/_any/g/0", "generator/d/_any/g/1"]
    assert "victim" not in found.specs[made[0]]


def test_another_seed_raises_every_seed_and_has_folders_of_its_own(root: Callable[..., Path]) -> None:
    place = root({"experiments/e": {"seeds": [0, 2]}})
    own, other = plan(place, "quick", METRICS), plan(place, "quick", METRICS, seed=5)
    assert {cell.seed for cell in own.cells} == {0, 2}
    assert {cell.seed for cell in other.cells} == {5, 7}
    assert other.specs["attack/d/v-tanh/f/none/b/7"]["seed"] == 7
    assert other.specs["table/e"]["experiment"]["seeds"] == [5, 7]
    # It is the same scale, whose recorded tables stand beside it.
    assert own.specs["figure/e"] == other.specs["figure/e"]
    other.write(place)
    assert [path.name for path in (place / "results").iterdir()] == ["quick-seed5"]
    assert run_name("quick", 0) == "quick-seed0"


def test_captures_alone_are_told_the_salt(root: Callable[..., Path]) -> None:
    place = root()
    told = {name for name, spec in planned(place).specs.items() if "00000000" in json.dumps(spec)}
    assert told == {name for name in planned(place).specs if name.startswith("capture/")}


@pytest.mark.parametrize(
    ("text", "what"), [(None, "no such file"), ("salt: 'abc'", "salt: String should match")]
)
def test_a_salt_that_is_not_there_or_short_is_one_line(
    root: Callable[..., Path], text: str | None, what: str
) -> None:
    place = root()
    file = place / "config/salt.yaml"
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(UserError, match=what) as problem:
        planned(place)
    assert str(file) in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("noise_multiplier", 0.0), ("noise_multiplier", -1.0), ("noise_multiplier", float("nan")),
        ("sample_rate", 0.0), ("sample_rate", 1.5), ("delta", 0.0), ("delta", 1.0), ("clip", 0.0),
        ("noise", "global"),
    ],
)  # fmt: skip
def test_settings_of_dp_sgd_that_are_out_of_range_name_the_file_and_the_key(
    root: Callable[..., Path], key: str, value: object
) -> None:
    parameters = {"noise_multiplier": 1.0, "clip": 1.0, key: value}
    entry = {"summary": "x", "module": "dp-sgd", "parameters": parameters}
    with pytest.raises(UserError, match=rf"defences/dp\.yaml: parameters\.{key}"):
        planned(root({"defences/dp": entry}))


SERVER = {
    "summary": "x",
    "module": "robbing-the-fed",
    "threat": "G",
    "auxiliary": {"split": "train", "stop": 60},
}


def test_what_a_malicious_server_does_stands_in_the_capture_s_spec(root: Callable[..., Path]) -> None:
    found = planned(root({"servers/s": SERVER, "federations/f": {"malicious": "s"}}))
    spec = found.specs["capture/d/v/f/none/0"]
    assert spec["malicious"]["module"] == "robbing-the-fed"
    assert spec["malicious"]["parameters"] == {"bins": "quantiles", "gain": 1.0, "unsure": True}
    assert "malicious" not in spec["federation"]


def test_what_watching_clients_find_hangs_on_the_detectors(root: Callable[..., Path]) -> None:
    spec = planned(root({"federations/f": {"watched": True}})).specs["capture/d/v/f/none/0"]
    looking = {"leakbench.detectors.isolation", "leakbench.detectors.rows_alike"}
    assert looking <= set(parts_of(spec))
    assert not looking & set(parts_of(spec | {"federation": spec["federation"] | {"watched": False}}))


@pytest.mark.parametrize(
    ("server", "federation", "told"),
    [
        ({}, {"malicious": "t"}, r"federations/f\.yaml: malicious: .*'t'"),
        ({}, {"malicious": "s", "server": "fedavg"}, "malicious: the server writes the weights anew"),
        ({}, {"malicious": "s", "begins": 3}, "begins: only clients that look remember rounds"),
        ({"auxiliary": {"split": "test", "stop": 30}}, {}, "overlap the private ones"),
        ({"auxiliary": {"split": "train", "stop": 61}}, {}, "end at 61, beyond the 60 of d/train"),
        ({"parameters": {"bins": "many"}}, {}, r"servers/s\.yaml: parameters\.bins"),
        ({"threat": "Z"}, {}, r"servers/s\.yaml: threat"),
    ],
)
def test_a_malicious_server_that_does_not_fit_is_told(
    root: Callable[..., Path], server: dict[str, Any], federation: dict[str, Any], told: str
) -> None:
    with pytest.raises(UserError, match=told) as refused:
        planned(root({"servers/s": SERVER | server, "federations/f": {"malicious": "s", **federation}}))
    assert "\n" not in str(refused.value)
