"""What is inferred from an update besides records: labels, members of the batch, and tokens."""

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from leakbench.attacks.exact.membership import Read, outside, spans
from leakbench.attacks.exact.span import Span, span
from leakbench.attacks.tokens import undecayed
from leakbench.audit.attacks import run
from leakbench.audit.client import UNKNOWN, Truth
from leakbench.audit.findings import NOTHING, RECOGNISABLE, Attempt, timed
from leakbench.audit.predictions import readable, short, uncountable
from leakbench.audit.replay import Round
from leakbench.base.errors import Unfit
from leakbench.networks.layers import normalisation
from leakbench.observations.observation import Observation
from leakbench.papers.bibliography import source

# The title of what an update gives away about the set of tokens.
TOKENS = "tokens"
# As many matrices are asked for members; those of the first layers, which read what hardly moves.
ASKED = 12


@dataclass
class Inference:
    """What an attack finds besides records, or why it did not run."""

    title: str
    attacker: str
    source: str
    line: str = ""
    ran: bool = False
    seconds: float = 0.0


def _ran(title: str, attacker: str, paper: str, attack: Callable[[], str], limit: float) -> Inference:
    """Run an attack that says in words what it finds, for at most `limit` seconds."""
    told, found = SimpleNamespace(why_not="", seconds=0.0), Inference(title, attacker, paper)
    timed(told, limit, lambda: setattr(found, "line", attack()))
    found.line, found.ran, found.seconds = told.why_not or found.line, not told.why_not, told.seconds
    return found


def _others_of(others: Tensor | None) -> Tensor:
    """Return records of other clients, with which members are compared. Raises Unfit if there are none."""
    if others is None or not len(others):
        raise Unfit("not run: it needs records of others in the batch, beyond those of the client (--batch)")
    return others


def _recognised(own: int, records: int, taken: int, others: int, by: str) -> str:
    seen = f"{own} of {records} records are recognised as members"
    return f"{seen}, and {taken} of {others} records of others are taken for members{by}"


def inferences(observation: Observation, truth: Truth, limit: float = 600.0) -> Iterator[Inference]:
    """Yield what an update gives away about labels, if the plain loss has classes, and about members."""
    if observation.plain and bool((truth.labels != UNKNOWN).all()):
        yield _ran("label counts", "B", str(source("llg")), lambda: labels(observation, truth), limit)
    paper = f"{source('projres')} (of text)"
    yield _ran("membership", "D", paper, lambda: members(observation, truth), limit)


def labels(observation: Observation, truth: Truth) -> str:
    """Return in words how many labels of the batch are counted right, from the last layer alone."""
    if why := uncountable(observation):
        raise Unfit(why)
    made = run({"module": "labels", "parameters": {}, "labels": "counted"}, observation)
    assert made.labels is not None
    classes = torch.arange(len(truth.labels)) % observation.network["classes"]
    right, even = (
        (Counter(guess.tolist()) & Counter(truth.labels.tolist())).total()
        for guess in (made.labels[0, 0], classes)
    )
    return f"{right} of {len(truth.labels)} labels are right ({even} by guessing all classes equally often)"


@torch.no_grad()
def members(observation: Observation, truth: Truth) -> str:
    """Return in words how many records, and how many of others, lie in the span of the first dense layer."""
    others = _others_of(truth.others)
    try:
        (seen,) = spans(readable(observation, needs_bias=False), "membership")
        by, found, read = "", seen.found, seen.read
    except Unfit:
        # An adapter on a frozen layer reads what that layer reads.
        by, found, read = _adapter(observation, truth.images)
    own, taken = (int(outside(found, read(each))[1].sum()) for each in (truth.images, others))
    if own == 0 and observation.dropout:
        raise Unfit("dropout changes what the layers read, so nothing was decided")
    return _recognised(own, len(truth.images), taken, len(others), by)


def _adapter(observation: Observation, images: Tensor) -> tuple[str, Span, Read]:
    """Return the span of a matrix that is sent and reads the records. Raises Unfit if there is none."""
    (batch,), model = observation.clients, observation.model()
    mean, deviation = (v.double() for v in normalisation(model, images.shape[1]))
    size = images[0].numel()

    def read(reader: Tensor | None, images: Tensor) -> Tensor:
        rows = ((images.double() - mean) / deviation).flatten(1)
        return rows if reader is None else rows @ reader.T

    weights = [torch.from_numpy(v[0]).double() for v in observation.weights.values() if v.ndim == 3]
    # The second matrix of an adapter reads what the first one makes of the records. While the second is zero,
    # as in the first step, the first one has no gradient.
    for reader in (None, *(each for each in weights if each.shape[1] == size)):
        columns = size if reader is None else len(reader)
        for name in observation.updates:
            update = observation.update(name)[0, 0].double()
            fits = update.dim() == 2 and update.shape[1] == columns and len(update) > batch
            found = span(update, batch, clear=1.0) if fits else None
            # Another layer may have the size of a second matrix, and read something else.
            if found is not None and (reader is None or outside(found, read(reader, images))[1].all()):
                return f", by the rows of {short(name)}", found, partial(read, reader)
    raise Unfit(
        "no matrix that reads the records, with more rows than there are records, is sent and has changed"
    )


def of_tokens(
    played: Round, embedding: str, limit: float, others: Tensor | None
) -> tuple[Attempt, list[Inference]]:
    """Attack a round whose records are tokens int64 [n, places]; `others` are records of other clients."""
    records = len(played.inputs)
    seen = _ran(TOKENS, "A", str(source("dager")), lambda: _rows(played, embedding), limit)
    found = Attempt(
        "sentence-membership", "Membership of sentences", "exact", "D", str(source("projres")), records,
        [NOTHING] * records,
    )  # fmt: skip
    timed(found, limit, lambda: _members(found, played, embedding, others))
    line = found.why_not or _recognised(
        found.count(RECOGNISABLE), records, found.null, 0 if others is None else len(others), found.by
    )
    return found, [seen, Inference("membership", "D", found.source, line, not found.why_not, found.seconds)]


def _exposed(played: Round, name: str) -> Tensor:
    """Return which tokens the rows of an embedding prove, bool [vocabulary]."""
    # Raises Unfit if they prove none, because something else than the look-up of tokens moves them.
    model = played.model
    layer: nn.Embedding = model.get_submodule(name)  # type: ignore[assignment]
    if f"{name}.weight" not in played.update:
        raise Unfit(f"{name} is not trained and not sent")
    sharing = [n for n, m in model.named_modules() if any(p is layer.weight for p in m._parameters.values())]
    if len(sharing) > 1:
        other = next(each for each in sharing if each != name)
        raise Unfit(f"the rows of {name} are shared with {other}, which moves every row: nothing is proven")
    rows, rounding = played.update[f"{name}.weight"].double(), torch.zeros(())
    if played.kind == "model":
        rows, rounding = undecayed(rows, layer.weight.detach().double(), played.inputs.numel())
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
    """The updates of matrices that read the same."""

    names: list[str]
    # [outputs, inputs], one below the other; and [records, places, inputs], what they read.
    rows: Tensor
    read: Tensor
    rank: int  # the smaller side of the narrowest


def _matrices(played: Round, tokens: Tensor) -> Iterator[_Rows]:
    """Yield the sent matrices that read something of each place of tokens [n, places], in their order."""
    model = deepcopy(played.model).double().eval()
    read: dict[str, Tensor] = {}

    def note(name: str, _: nn.Module, inputs: Any) -> None:
        first = inputs[0] if inputs else None
        if isinstance(first, Tensor) and first.dim() == 3 and first.shape[:2] == tokens.shape:
            read.setdefault(name, first.detach())

    for name, layer in model.named_modules():
        layer.register_forward_pre_hook(partial(note, name))
    # Without gradients, torch's own encoder would take a way around its layers.
    with torch.enable_grad():
        model(tokens.clone())
    del model
    sent = {n: v for n, v in played.update.items() if v.dim() == 2 and v.any()}
    # The query, key and value of a block read one tensor, whose span needs the rows of all of them.
    found: dict[tuple[int, str], list[tuple[str, Tensor, Tensor]]] = {}
    for name, x in read.items():
        layer = played.model.get_submodule(name)
        own = dict(layer.named_parameters(recurse=False)) | dict(layer.named_buffers(recurse=False))
        # The second matrix of an adapter reads what the first one makes of its input.
        downs = {part: v.detach() for part, v in own.items() if v.dim() == 2 and v.shape[1] == x.shape[2]}
        for down, part in product(["", *downs], own):
            rows = sent.get(whole := f"{name}.{part}" if name else part)
            if rows is None or part == down:
                continue
            # transformers' Conv1D keeps its matrix transposed.
            rows = rows.T if type(layer).__name__ == "Conv1D" else rows
            seen = x @ downs[down].double().T if down else x
            if rows.shape[1] == seen.shape[2]:
                found.setdefault((x.data_ptr(), down and f"{name}.{down}"), []).append((whole, rows, seen))
    for each in found.values():
        names, updates, inputs = zip(*each, strict=True)
        rank = min(min(rows.shape) for rows in updates)
        yield _Rows(list(names), torch.cat(updates).double(), inputs[0], rank)


def _members(found: Attempt, played: Round, embedding: str, others: Tensor | None) -> None:
    """Find out which records are recognised as members, and how many of others are taken for members."""
    others = _others_of(others)
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
        members = _all_inside(span(each.rows, most, clear=1.0), each.read)
        gain = int(members[:records].sum()) - int(members[records:].sum())
        if gain > best[0]:
            alone = f"{embedding}.weight" not in played.update
            what = f"the adapter alone, rank {each.rank}" if alone else f"the rows of {', '.join(each.names)}"
            best = gain, members, f", from {what}"
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
    elif best[0] <= 0 and played.drops:
        raise Unfit("dropout changes what the matrices read, so nothing was decided")
    _, members, found.by = best
    found.levels = [RECOGNISABLE if one else NOTHING for one in members[:records].tolist()]
    found.null = int(members[records:].sum())


def _all_inside(found: Span | None, read: Tensor) -> Tensor:
    """Return which records [n, places, inputs] lie in a span with all their tokens, bool [n]."""
    # The last place of a decoder is read by nothing that the loss sees, so it is left out.
    part = read[:, : max(1, read.shape[1] - 1)]
    return outside(found, part.flatten(0, 1))[1].view(part.shape[:2]).all(1)
