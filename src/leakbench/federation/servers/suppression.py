"""Gradient suppression (Pasquini, Francati and Ateniese, CCS 2022): a sum that is one client's update.

All other clients receive a layer that gets no gradient.
"""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from leakbench.base.errors import UserError
from leakbench.federation.servers import Held, Written, trapped
from leakbench.federation.servers.robbing_the_fed import alone, robbing_the_fed


def suppression(
    model: nn.Module,
    held: Held,
    *,
    chosen: Annotated[int, Field(ge=0)] = 0,
    bins: Literal["quantiles", "normal"] = "quantiles",
    gain: Annotated[float, Field(gt=0)] = 1.0,
    unsure: bool = True,
) -> Written:
    """Send one client the bins of Robbing the Fed, and all others biases that no sample overcomes.

    A neuron that is closed for every sample has a gradient of zero, also after many local steps. So in a sum
    over clients the gradient of the first dense layer is that of the chosen client, and its batch is read as
    if no sum had been taken. The server must be able to choose which client it attacks in a round. The
    expected share is a share of the samples of all clients; the samples of the other clients are never read.
    Dead layers of ReLUs are the paper's attack. The paper reads the one remaining update by other attacks;
    reading it by bins is an addition of this project.

    chosen: the client whose samples are read, counted from 0.
    bins: as in `robbing_the_fed`.
    gain: as in `robbing_the_fed`.
    unsure: as in `robbing_the_fed`.

    Raises UserError as `robbing_the_fed` does, if fewer than two clients take part, if the chosen client does
    not, and if closed neurons still pass a gradient on.
    """
    clients = len(held.clients)
    if clients < 2:
        raise UserError(
            "malicious: suppression takes one client out of a sum (give the federation two clients or more)"
        )
    if chosen >= clients:
        raise UserError(f"malicious: suppression: chosen: there is no client {chosen} of {clients}")
    own = held.clients[chosen]
    robbing_the_fed(model, held, bins=bins, gain=gain, unsure=unsure)
    layer, read = trapped(model, held.shape, "suppression")
    assert held.samples is not None
    name = next(name for name, module in model.named_modules() if module is layer)
    written = layer.bias.detach().clone()
    # Far below minus the query's largest result, so that the neuron stays closed for every sample.
    reach = float((layer.weight.detach()[0] @ read(held.samples).T).abs().max())
    closed = torch.full_like(written, -2 * reach - gain)
    if _open(model, layer, closed, held.samples[:8]):
        raise UserError(
            "malicious: suppression needs neurons that pass no gradient on when closed, such as ReLUs"
        )
    each = closed.repeat(clients, 1)
    each[chosen] = written
    return Written({"exact": alone(layer.out_features, own) * own / held.batch}, {f"{name}.bias": each})


def _open(model: nn.Module, layer: nn.Linear, bias: Tensor, samples: Tensor) -> bool:
    """Return whether a layer with this bias gets a gradient from some of the samples."""
    before = layer.bias.detach().clone()
    with torch.no_grad():
        layer.bias.copy_(bias)
    try:
        with torch.enable_grad():
            asked = layer.weight.requires_grad_()
            (slope,) = torch.autograd.grad(model(samples).square().sum(), asked)
    finally:
        with torch.no_grad():
            layer.bias.copy_(before)
    return bool(slope.any())
