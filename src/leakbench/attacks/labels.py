"""Label inference on its own: which labels were in each batch, without images."""

import torch

from leakbench.attacks import capable
from leakbench.attacks.matching.labelling import known_labels
from leakbench.base.errors import Unfit
from leakbench.base.parts import WITHOUT_RULE
from leakbench.observations.observation import Observation
from leakbench.observations.reconstruction import Reconstruction

# What it costs: little but for the rules that pass images through each client's own model.
COST = {"products": 0, "calls": "0.05 * updates", "passes": "updates * probed"}


# The labels of a round follow from its own update alone.
@capable(together=True)
def labels(observation: Observation, rng: torch.Generator) -> Reconstruction:
    """Return the labels of each update, by the rule that the attack's section `labels` names.

    Raises Unfit where the section names no rule, or where the rule does not fit the network or the batch.
    """
    if observation.labelling in WITHOUT_RULE:
        raise Unfit(f"attack: labels: {observation.labelling} infers nothing (name a rule, such as counted)")
    usable = torch.zeros(
        observation.rounds, len(observation.clients), max(observation.clients), dtype=torch.bool
    )
    found = torch.full(usable.shape, -1)
    for origin, rounds in observation.by_model():
        model = observation.model(origin).to(observation.work.device)
        for client, batch in enumerate(observation.clients):
            known = known_labels(observation, client, rounds, model)
            assert known is not None
            found[rounds, client, :batch], usable[rounds, client, :batch] = known, True
    return Reconstruction(torch.zeros(*usable.shape, 0), usable, "labels", labels=found)
