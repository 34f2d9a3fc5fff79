"""The audit of a client whose records are tokens: which tokens, and which records, its update gives away."""

import time
from collections.abc import Callable
from copy import deepcopy
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from leakbench.attacks.exact.membership import distances, within
from leakbench.attacks.exact.span import Span, span
from leakbench.attacks.tokens import undecayed
from leakbench.audit.attacks import TOKENS, Beside
from leakbench.audit.child import Tell
from leakbench.audit.findings import NOTHING, RECOGNISABLE, Found, timed
from leakbench.audit.network import drops, reads, reason, untrained
from leakbench.audit.predictions import Look
from leakbench.audit.replay import Round
from leakbench.audit.report import Audit
from leakbench.base.errors import Unfit
from leakbench.papers.bibliography import source

# As many matrices are asked for members; those of the first layers, which read what hardly moves.
ASKED = 12


def of_tokens(played: Round, budget: float, tell: Tell, others: Tensor | None) -> Audit:
    """Audit a round whose records are tokens int64 [n, places], beside `others`, records of other clients."""
    begun, records = time.perf_counter(), len(played.inputs)
    embedding = reads(played.model, played.inputs)
    audit = _begun(played, embedding, budget)
    seen = Beside(TOKENS, "A", str(source("dager")), *_told(lambda: _rows(played, embedding)))
    found = Found(
        "sentence-membership", "Membership of sentences", "exact", "D", str(source("projres")), records,
        [NOTHING] * records,
    )  # fmt: skip
    timed(found, budget, lambda: _members(found, played, embedding, others))
    line = found.why_not or (
        f"{found.count(RECOGNISABLE)} of {records} records are recognised as members, and {found.null} of "
        f"{len(others) if others is not None else 0} records of others are taken for members{found.by}"
    )
    member = Beside("membership", "D", found.source, line, not found.why_not, found.seconds)
    audit.found, audit.besides = [found], [seen, member]
    for each in audit.besides:
        tell(f"besides: {each.title}: {each.line}")
    audit.assumptions = _assumptions(played)
    audit.seconds = round(time.perf_counter() - begun, 2)
    tell(audit.headline())
    return audit


def _told(attack: Callable[[], str]) -> tuple[str, bool, float]:
    """Return what an attack says or why it did not run, whether it ran, and its seconds."""
    begun = time.perf_counter()
    try:
        line, ran = attack(), True
    except Exception as problem:  # noqa: BLE001 - a network of somebody's own may raise anything
        line, ran = reason(problem), False
    return line, ran, round(time.perf_counter() - begun, 3)


def _begun(played: Round, embedding: str, budget: float) -> Audit:
    frozen = untrained(played.model, played.update)
    rows = played.model.get_submodule(embedding).num_embeddings
    return Audit(
        len(played.inputs),
        {
            "network": type(played.model).__name__,
            "parameters": sum(p.numel() for p in played.model.parameters()),
            **({"not trained": frozen} if frozen else {}),
            "input": f"{played.inputs.shape[1]} tokens, of a vocabulary of {rows}",
            "records": len(played.inputs),
            "local steps": played.steps,
            "optimiser": played.optimiser,
            "sends": "one gradient" if played.kind == "gradient" else "new weights",
            "dropout": "yes" if drops(played.model, played.inputs) else "no",
            "loss": played.loss,
            "computed again": f"{played.replayed[0]} of {played.replayed[1]} steps",
        },
        Look(),
        budget=budget,
        least=played.least(),
    )


def _assumptions(played: Round) -> list[str]:
    done, steps = played.replayed
    frozen = untrained(played.model, played.update)
    sentences = [
        (True, "The server sees each client's update by itself; with secure aggregation it sees sums."),
        (True, "The attacker knows the network's code and its vocabulary."),
        (True, "The records are tokens. Their set and membership were tried. Whole sentences, searches, "
         "detectors and what would help were not."),
        (True, "A record counts as recognisable if every token of it that the loss depends on lies in the "
         "span of one sent matrix, or if no matrix has a span and all its tokens are exposed."),
        (True, "One round of one client was audited."),
        (bool(played.differs), f"{done} of {steps} local steps were computed again. They differ from plain "
         f"training: {'; '.join(played.differs.values())}."),
        (not played.plain_steps, f"Clients train with {played.optimiser}. The span takes its steps for "
         "plain SGD, so more may be found."),
        (bool(frozen), f"{frozen} are not trained, so nothing is sent of them."),
    ]  # fmt: skip
    return [sentence for holds, sentence in sentences if holds]


def _exposed(played: Round, name: str) -> Tensor:
    """Return which tokens the rows of an embedding prove, bool [vocabulary]. Raises Unfit if they prove none.

    Rows prove nothing if something else than the look-up of tokens moves them.
    """
    model = played.model
    layer: nn.Embedding = model.get_submodule(name)  # type: ignore[assignment]
    sharing = [n for n, m in model.named_modules() if any(p is layer.weight for p in m._parameters.values())]
    if len(sharing) > 1:
        other = next(each for each in sharing if each != name)
        raise Unfit(f"the rows of {name} are shared with {other}, which moves every row: nothing is proven")
    if f"{name}.weight" not in played.update:
        raise Unfit(f"{name} is not trained and not sent")
    rows, rounding = played.update[f"{name}.weight"].double(), torch.zeros(())
    if played.kind == "model":
        rows, rounding = undecayed(rows, layer.weight.detach().double())
    exposed = rows.norm(dim=1) > rounding
    if exposed.sum() > played.inputs.numel() or len(rows) <= played.inputs.numel():
        raise Unfit(
            f"nothing is proven: {int(exposed.sum())} of {len(rows)} rows of {name} moved, by "
            f"{played.inputs.numel()} tokens (noise does that, or a use of its weights beside the look-up)"
        )
    return exposed


def _rows(played: Round, name: str) -> str:
    """Return in words how many of the distinct tokens the rows of an embedding expose."""
    found = set(_exposed(played, name).nonzero().flatten().tolist())
    # No gradient reaches the row of a token for padding, which everybody knows.
    own = set(played.inputs.flatten().tolist()) - {played.model.get_submodule(name).padding_idx}
    wrong = f", and {len(found - own)} that did not occur" if found - own else ", certified"
    return f"{len(found & own)} of {len(own)} distinct tokens{wrong if found else ''}"


class _Rows(NamedTuple):
    """The updates of matrices that read the same.

    names: the names of the matrices.
    rows: [outputs, inputs], their updates one below the other.
    read: [records, places, inputs], what the network that was sent gives them to read.
    rank: the smaller side of the narrowest.
    """

    names: list[str]
    rows: Tensor
    read: Tensor
    rank: int


def _matrices(played: Round, tokens: Tensor) -> list[_Rows]:
    """Return the sent matrices that read something of each place of tokens [n, places], in their order."""
    model = deepcopy(played.model).double().eval()
    read: dict[str, Tensor] = {}
    for name, layer in model.named_modules():
        layer.register_forward_pre_hook(lambda _, inputs, name=name: _note(read, name, inputs, tokens.shape))
    # Without gradients, torch's own encoder would take a way around its layers.
    with torch.enable_grad():
        model(tokens.clone())
    sent = {n: v.double() for n, v in played.update.items() if v.dim() == 2 and v.any()}
    # The query, key and value of a block read one tensor, whose span needs the rows of all of them.
    found: dict[tuple[int, str], list[tuple[str, Tensor, Tensor]]] = {}
    for name, x in read.items():
        layer = model.get_submodule(name)
        own = dict(layer.named_parameters(recurse=False)) | dict(layer.named_buffers(recurse=False))
        # The second matrix of an adapter reads what the first one makes of its input.
        downs = {part: v.detach() for part, v in own.items() if v.dim() == 2 and v.shape[1] == x.shape[2]}
        for down, part in product(["", *downs], own):
            rows = sent.get(whole := f"{name}.{part}" if name else part)
            if rows is None or part == down:
                continue
            # transformers' Conv1D keeps its matrix transposed.
            rows = rows.T if type(layer).__name__ == "Conv1D" else rows
            seen = x @ downs[down].T if down else x
            if rows.shape[1] == seen.shape[2]:
                found.setdefault((x.data_ptr(), down and f"{name}.{down}"), []).append((whole, rows, seen))
    made = []
    for each in found.values():
        names, updates, inputs = zip(*each, strict=True)
        rank = min(min(rows.shape) for rows in updates)
        made.append(_Rows(list(names), torch.cat(updates), inputs[0], rank))
    return made


def _note(read: dict[str, Tensor], name: str, inputs: Any, shape: torch.Size) -> None:
    first = inputs[0] if inputs else None
    if name not in read and isinstance(first, Tensor) and first.dim() == 3 and first.shape[:2] == shape:
        read[name] = first.detach()


def _members(found: Found, played: Round, embedding: str, others: Tensor | None) -> None:
    """Find out which records are recognised as members, and how many of others are taken for members."""
    if others is None or not len(others):
        raise Unfit("not run: it needs records of others in the batch, beyond those of the client (--batch)")
    records, most = len(played.inputs), played.inputs.numel()
    best = -1, torch.zeros(records + len(others), dtype=torch.bool), ""
    wide, asked = 0, 0
    for each in _matrices(played, torch.cat([played.inputs, others])):
        if min(each.rows.shape) <= most:
            wide = max(wide, min(each.rows.shape))
            continue
        if asked == ASKED or best[0] == records:
            break
        asked += 1
        inside = _inside(span(each.rows, most, clear=1.0), each.read)
        gain = int(inside[:records].sum()) - int(inside[records:].sum())
        if gain > best[0]:
            alone = f"{embedding}.weight" not in played.update
            what = f"the adapter alone, rank {each.rank}" if alone else f"the rows of {', '.join(each.names)}"
            best = gain, inside, f", from {what}"
    if best[0] < 0:
        try:
            exposed = _exposed(played, embedding)
        except Unfit as why:
            raise Unfit(
                f"no sent matrix that reads the tokens has more than {most} dimensions, the number of tokens "
                f"(the widest has {wide}), and {why}"
            ) from None
        layer: nn.Embedding = played.model.get_submodule(embedding)  # type: ignore[assignment]
        if layer.padding_idx is not None:
            exposed[layer.padding_idx] = True
        best = 0, exposed[torch.cat([played.inputs, others])].all(1), ", from the set of exposed tokens"
    elif best[0] <= 0 and drops(played.model, played.inputs):
        raise Unfit("dropout changes what the matrices read, so nothing was decided")
    _, inside, found.by = best
    found.levels = [RECOGNISABLE if one else NOTHING for one in inside[:records].tolist()]
    found.null = int(inside[records:].sum())


def _inside(found: Span | None, read: Tensor) -> Tensor:
    """Return which records [n, places, inputs] lie in a span with all their tokens, bool [n].

    The last place of a decoder is read by nothing that the loss sees, so it is left out.
    """
    part = read[:, : max(1, read.shape[1] - 1)]
    flat = part.flatten(0, 1)
    return within(found, flat, distances(found, flat)).view(part.shape[:2]).all(1)
