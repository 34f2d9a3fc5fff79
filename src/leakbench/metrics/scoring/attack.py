"""The rows of one attack on a capture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from leakbench.base.artefacts import Facts, open_tensors
from leakbench.base.seeds import stream
from leakbench.metrics import METRICS
from leakbench.metrics.baselines import (
    CERTIFIED,
    EXPECTED,
    FREQUENT,
    ORIGINAL,
    SHUFFLED,
    SNAPSHOT,
    TRANSFORMED,
)
from leakbench.metrics.identification import POOL
from leakbench.metrics.scoring.candidates import Candidates, Measures, rows_of
from leakbench.metrics.scoring.certified import bounds, computed
from leakbench.metrics.scoring.columns import add_distance, add_labels, add_partners, add_prices
from leakbench.metrics.scoring.falls import falls
from leakbench.metrics.scoring.groups import groups, unrelated
from leakbench.metrics.scoring.labels import label_rows
from leakbench.metrics.scoring.membership import add_epsilon, membership_rows
from leakbench.metrics.scoring.resources import cheap, gather, judged, open_backbones
from leakbench.metrics.scoring.truths import Truths
from leakbench.metrics.text import numbers
from leakbench.metrics.updates import of_rounds


def attack_rows(
    guesses: Path, entry: Mapping[str, Any], seed: int, truths: Truths, backbones: Path | None,
    judges: Mapping[str, Path],
) -> tuple[pd.DataFrame, Facts]:  # fmt: skip
    """Return the rows of one attack's guesses, and the facts that a table reports beside them."""
    tensors, facts = open_tensors(guesses)
    target = facts["target"]
    rng = np.random.Generator(np.random.PCG64(stream("baseline", seed)))
    clients = range(len(truths.facts["clients"]))
    # An attacker who is given a sample's label is right by chance more often than a certified bound allows
    # for.
    given = facts["knows"].get("labels") == "given"
    told = {"knows": facts["knows"], "target": target, "left_out": "", "classes": 0}
    if target == "labels":
        frames = [each for client in clients for each in label_rows(tensors, truths, client, rng)]
        return pd.concat(frames, ignore_index=True), told
    if target == "candidates":
        asked = [name for name in entry["metrics"] if METRICS[name].of == target]
        frames = [membership_rows(tensors, truths.secret, client, asked) for client in clients]
        if "epsilon_low" in asked:
            certified = truths.facts.get("certificate")
            frames = [
                add_epsilon(each, len(truths.secret["candidates"]), certified, given) for each in frames
            ]
        bounded = [] if given else list(frames)
        frames += [_certified(each, truths, asked, 0) for each in bounded]
        return pd.concat(frames, ignore_index=True), told | _certificate(truths)
    if target == "tokens":
        asked = [name for name in entry["metrics"] if METRICS[name].of == "candidates"]
        frames = [token_rows(tensors, truths, client, asked) for client in clients]
        return pd.concat(frames, ignore_index=True), told
    names, resources = gather(
        [name for name in entry["metrics"] if name == "pearson" or METRICS[name].of == target],
        truths.once(lambda: open_backbones(backbones), "backbones"),
        {name: judges[name] for name in entry["judges"] if name in judges},
        truths.needs(POOL),
    )
    by = Measures(names, resources, entry["matching"], target)
    frames = []
    for client in clients:
        frames += _of_client(tensors, facts["iterations"], client, by, truths, rng)
    if target == "images" and any(METRICS[name].convention == "published" for name in names):
        frames += _of_unrelated(facts["iterations"], by, truths, seed)
    if target == "images" and not given:
        slots = tensors["usable"].shape[-1]
        frames += [
            _certified(each, truths, names, slots) for each in list(frames) if not each["baseline"].any()
        ]
    expected = {n: value for n, value in truths.facts.get("expected", {}).items() if n in names}
    frames += [computed(each, expected, EXPECTED) for each in list(frames) if not each["baseline"].any()]
    beside = {"left_out": resources.left_out, "classes": resources.classes} | _certificate(truths)
    if "losses" in tensors and not entry["decays"]:
        # A step size that decays ends the fall of the loss as well, so the fall shows nothing then.
        beside["falls"] = falls(np.array(tensors["losses"])).round(4).ravel().tolist()
    return pd.concat(frames, ignore_index=True), {name: facts[name] for name in ("knows", "target")} | beside


def token_rows(
    tensors: Mapping[str, np.ndarray], truths: Truths, client: int, names: Sequence[str]
) -> pd.DataFrame:
    """Return what the metrics of candidates say of the tokens of each update, and of each null update."""
    index, length = truths.secret[f"images/{client}"], truths.pictures.shape[2] - 1
    counts, samples = truths.token_counts(), index.shape[1]
    placed = tensors["span_distance"].shape[-1] > len(counts)
    counts = counts[:, :length] if placed else counts.sum(1, keepdims=True)

    # Nothing reads a sentence's last token. An attack that answers for places has pairs as members.
    def members(held: np.ndarray) -> np.ndarray:
        read = numbers(truths.pictures[held][:, 0, None, None, :-1, 0], truths.vocabulary).reshape(-1, length)
        at = read.T if placed else [read]
        return np.stack([np.isin(np.arange(len(counts)), each) for each in at], 1).ravel()

    def guess(score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        taken = np.argsort(score, -2, kind="stable").argsort(-2) < samples * (1 if placed else length)
        flat = *score.shape[:-2], -1
        return score.reshape(flat), taken.reshape(flat)

    blind = {FREQUENT: guess(-counts.astype(np.float64))}
    if placed:
        own = [members(held).reshape(counts.shape).any(1) for held in index[: len(tensors["null/usable"])]]
        anywhere = np.random.default_rng(0).random((len(own), *counts.shape))
        blind[SHUFFLED] = guess(np.where(np.stack(own)[..., None], anywhere, 1.0))
    return membership_rows(tensors, truths.secret, client, names, members, blind)


def _certificate(truths: Truths) -> Facts:
    """Return what the defence certifies as a fact of the scores, without its curve; empty if nothing."""
    found = truths.facts.get("certificate")
    return {"certificate": {key: value for key, value in found.items() if key != "curve"}} if found else {}


def _certified(rows: pd.DataFrame, truths: Truths, names: Sequence[str], guesses: int) -> pd.DataFrame:
    """Return the rows of the certified bounds on what `rows`, of one client, measure."""
    if "certificate" not in truths.facts:
        return rows.iloc[:0]
    held = len(truths.secret["candidates"]) if "candidates" in truths.secret else 0
    others = held - int(rows["local_samples"].max())
    certified, pool = truths.facts["certificate"], min(POOL, len(truths.pictures))
    key = certified["epsilon"], certified["among"], certified["delta"], guesses, pool, others, *names
    gammas = truths.once(lambda: bounds(certified, names, guesses, pool, others), "bounds", *key)
    return computed(rows, gammas, CERTIFIED)


def _of_client(
    tensors: Mapping[str, np.ndarray], length: int, client: int, by: Measures, truths: Truths,
    rng: np.random.Generator,
) -> Iterator[pd.DataFrame]:  # fmt: skip
    """Yield the rows of what was reconstructed of one client, and of each null baseline."""
    secret, target, k = truths.secret, by.target, truths.facts["clients"][client]
    index, private = secret[f"images/{client}"], truths.aims(client, "images")
    aim = private if target == "images" else truths.aims(client, target)
    blind = truths.once(lambda: truths.blind(target), "blind", target)
    scored = list(groups(tensors, secret, client, blind, k, by.matching, length, rng))
    people = np.array(secret[f"labels/{client}"]) if by.resources.judges else None
    if people is not None:
        scored.append(Candidates(private, np.ones(private.shape[:2], bool), ORIGINAL))
    inputs = secret.get(f"inputs/{client}") if target == "images" else None
    if inputs is not None:
        scored.append(replace(scored[0], baseline=TRANSFORMED))
    # Intermediate reconstructions only show how far the attack had come, which is not worth the time of
    # LPIPS.
    asked = {ORIGINAL: judged(by.names), SNAPSHOT: cheap(by.names)}
    for candidates in scored:
        baseline, rounds = candidates.baseline, len(candidates.images)
        own = replace(by, names=asked.get(baseline, by.names))
        who = None if people is None else people[:rounds]
        aims = aim[:rounds], private[:rounds]
        if baseline == TRANSFORMED:
            aims = np.array(inputs), np.array(inputs)
        of_rows = rows_of(candidates, *aims, own, who)
        named = {
            "checkpoint": np.repeat(secret["checkpoint"][:rounds], k),
            "pass": np.repeat(secret["pass"][:rounds], k), "round": np.repeat(np.arange(rounds), k),
            "client": client, "local_samples": k, "sample": np.tile(np.arange(k), rounds),
            "image": index[:rounds].reshape(-1), "baseline": baseline,
        }  # fmt: skip
        frame = pd.DataFrame(named | of_rows)
        if candidates.gap is not None:
            frame["gradient_mse"] = of_rounds(candidates.gap, k)
        add_labels(frame, tensors, secret, client, baseline)
        add_distance(frame, tensors, client, baseline)
        if not baseline:
            add_partners(frame, tensors, secret, client)
            add_prices(frame, secret, client)
        frame["iterations"] = candidates.iterations
        yield frame


def _of_unrelated(length: int, by: Measures, truths: Truths, seed: int) -> Iterator[pd.DataFrame]:
    pairs = truths.once(lambda: unrelated(truths.pictures, by, seed), "unrelated", by.matching, *by.names)
    first = {name: truths.secret[name][0] for name in ("checkpoint", "pass")}
    for client, k in enumerate(truths.facts["clients"]):
        yield pairs.assign(iterations=length, **first, client=client, local_samples=k)
