"""Tokens of one gradient of a decoder of GPT-2's size: seconds and peak memory of the two attacks on tokens.

    python -m bench.gpt2            16 sentences of 32 tokens, 50,257 tokens, 768 wide, 12 blocks
    python -m bench.gpt2 --small    a tiny decoder, to see that it works

The weights are random. The head is tied to the embedding as in GPT-2, so that the span of the first attention
decides. The rows of the embedding decide on a second decoder, whose head has weights of its own. A line has
the wall time, and the time of all cores together, which another load of the machine hardly changes.
"""

import argparse
import resource
import time

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from leakbench.attacks import run
from leakbench.base.processes.process import prepare
from leakbench.networks import victims
from leakbench.observations.observation import Observation

FULL = {"width": 768, "blocks": 12, "heads": 12}
SMALL = {"width": 64, "blocks": 2, "heads": 2}


def observed(vocabulary: int, sentences: int, length: int, parameters: dict[str, object]) -> Observation:
    """Return what the server saw of random sentences, the first of its candidates.

    sentences: the number of sentences in the batch.
    length: the number of tokens that a sentence reads.
    parameters: those of the victim `transformer`.
    """
    torch.manual_seed(0)
    shape = (1, length + 1, 1)
    model = victims.build("transformer", shape, vocabulary, parameters)
    private = torch.randint(0, vocabulary, (sentences, length + 1))
    cross_entropy(model((private / vocabulary)[:, None, None]), private[:, 1:]).backward()
    named = dict(model.named_parameters())
    return Observation(
        network={"module": "transformer", "parameters": parameters, "shape": [*shape], "classes": vocabulary},
        weights={name: value.detach().numpy()[None] for name, value in model.state_dict().items()},
        updates={n: v.grad.numpy()[None, None] for n, v in named.items() if v.grad is not None},
        origin=np.zeros(1, np.int64),
        clients=[sentences],
        kind="gradient",
        candidates=private.numpy()[:, None, :, None],
    )


def main(*, small: bool) -> None:
    """Run both attacks and print a line for each."""
    prepare(2)
    size = (500, 2, 6, SMALL) if small else (50_257, 16, 32, FULL)
    for attack, tied in (("tokens", False), ("token_span", True)):
        seen = observed(*size[:3], {**size[3], "tied": tied})
        own = set(seen.candidates[:, 0, :-1].flatten().tolist())  # type: ignore[index]
        wall, cores = time.perf_counter(), time.process_time()
        found = run({"module": attack, "parameters": {}}, seen, torch.Generator().manual_seed(0)).usable[0, 0]
        wall, cores = time.perf_counter() - wall, time.process_time() - cores
        named = set(found.nonzero().flatten().tolist())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{attack}: {len(named & own)} of {len(own)} distinct tokens, {len(named - own)} false, "
            f"{wall:.1f} s, {cores:.1f} s of all cores, {peak:.1f} GiB at most with the client's training"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    main(small=parser.parse_args().small)
