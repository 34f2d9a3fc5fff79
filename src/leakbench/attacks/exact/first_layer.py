"""What an exact attack needs of an update: the first dense layer, its gradient and the network behind it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from leakbench.attacks.exact.adam import stepped_back
from leakbench.attacks.matching.received import NOISE, as_gradient, local_steps, noise_images
from leakbench.base.errors import Unfit
from leakbench.networks.layers import RandomLayer, first_dense, normalisation
from leakbench.observations.observation import Observation

# The greatest and least values of pixels, in deviations from the mean of their batch.
BRIGHT = 5.0


@dataclass(frozen=True)
class FirstLayer:
    """The first dense layer of a network, and the mean gradient of one batch. All tensors are float64.

    weight: [neurons, inputs], as it was sent out; bias: [neurons], the same.
    slope: [neurons, inputs], the gradient of the loss by the weight; offset: [neurons], that by the bias.
    low, high: [inputs], the least and the greatest value of what the layer reads.
    logits: what the network makes of the layer's output [n, neurons]: [n, classes]; none where dropout hides
    it.
    of_batch: whether the layer reads pixels that are normalised by their own batch, of which the server knows
    neither mean nor deviation.
    plain: whether the loss is the mean cross-entropy.
    """

    weight: Tensor
    bias: Tensor
    slope: Tensor
    offset: Tensor
    batch: int
    low: Tensor
    high: Tensor
    logits: Callable[[Tensor], Tensor] | None
    of_batch: bool = False
    plain: bool = True

    @property
    def known(self) -> bool:
        """Whether what a sample adds is known: the loss, and the network behind the layer."""
        return self.plain and self.logits is not None

    @property
    def any_loss(self) -> bool:
        """Whether the network behind the layer is known, but not the loss."""
        return self.logits is not None and not self.plain

    @property
    def scores(self) -> int:
        """The number of scores that the network gives a sample."""
        assert self.logits is not None
        return self.logits(self.bias[None]).shape[1]

    def caused(self, samples: Tensor) -> Tensor:
        """Return what each sample would add to `offset` if it had each class, [n, classes, neurons].

        With logits f(z) of the layer's output z, their softmax p and J = df/dz, a sample of class l adds (Jᵀp
        − J[l]) / batch (Shariati and Alambardar Meybodi, arXiv:2609.09659, the certificate of a recovered
        sample).
        """
        logits, jacobian = self.linear(samples)
        mean = torch.einsum("nk,nkm->nm", logits.softmax(1), jacobian)
        return (mean[:, None] - jacobian) / self.batch

    def steepness(self, samples: Tensor, basis: Tensor) -> Tensor:
        """Return by how much `caused` changes if a sample moves by a length of one, [n, neurons].

        It is the root mean square over all directions within a span, the same for every class. Beside a
        sample, a network of ReLUs is linear, so that only the softmax moves: the derivative is Jᵀ (diag p − p
        pᵀ) J W / batch, with W the layer's weight. Behind activations that bend, this leaves out how J moves.
        """
        logits, jacobian = self.linear(samples)
        share = logits.softmax(1)
        slopes = jacobian @ (self.weight @ basis.T)
        slopes -= torch.einsum("nk,nkr->nr", share, slopes)[:, None]
        moved = jacobian.transpose(1, 2) @ (share[:, :, None] * slopes)
        return moved.norm(dim=2) / (self.batch * len(basis) ** 0.5)

    def linear(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits [n, classes] and J, their derivative by the layer's output."""
        assert self.logits is not None
        output = (samples @ self.weight.T + self.bias).requires_grad_(True)
        with torch.enable_grad():
            logits = self.logits(output)
            rows = [
                torch.autograd.grad(logits[:, label].sum(), output, retain_graph=True)[0]
                for label in range(logits.shape[1])
            ]
        return logits.detach(), torch.stack(rows, 1)


def first_read(observation: Observation, model: nn.Module, count: int) -> tuple[str, Tensor, Tensor, bool]:
    """Return the first dense layer's name, noise, what it reads of that, and whether that is its pixels."""
    noise = noise_images(observation.pixels)[:count].double()
    mean, deviation = (value.double() for value in normalisation(model, noise.shape[1]))
    name, read = first_dense(model, noise)
    plain = read.shape == noise.shape and torch.allclose(read, (noise - mean) / deviation)
    return name, noise, read, plain


def first_layers(observation: Observation, attack: str) -> Iterator[tuple[int, int, FirstLayer]]:
    """Yield round, client and first layer of every update.

    Batch norm of the pixels themselves is allowed, because no sample then changes what another one adds.
    Raises Unfit for updates of several local steps, for batch norm behind the layer that uses the batch, and
    for a network whose first dense layer has no bias or reads something other than the (normalised) pixels.
    """
    observation = stepped_back(observation)
    for number, origin in enumerate(observation.origin.tolist()):
        model = observation.model(origin).double()
        mean, deviation = (value.double() for value in normalisation(model, observation.pixels[0]))
        name, noise, read, plain = first_read(observation, model, NOISE)
        of_batch = not plain and observation.mode == "train" and _scaled(read, noise)
        if not plain and not of_batch:
            raise Unfit(f"attack: {attack} needs a first layer that is dense ({name} reads features)")
        if f"{name}.bias" not in observation.updates:
            raise Unfit(f"attack: {attack} needs a bias, and the dense layer {name} has none")
        if observation.mode == "train" and any(isinstance(m, nn.BatchNorm1d) for m in model.modules()):
            raise Unfit(f"attack: {attack} needs samples that do not see each other (batch norm sees all)")
        masked = observation.dropout or any(isinstance(m, RandomLayer) and m.active for m in model.modules())
        ends = (-BRIGHT, BRIGHT) if of_batch else ((0.0 - mean) / deviation, (1.0 - mean) / deviation)
        low, high = (
            torch.as_tensor(each, dtype=torch.float64).expand(observation.pixels).flatten() for each in ends
        )
        layer: nn.Linear = model.get_submodule(name)  # type: ignore[assignment]
        for client, batch in enumerate(observation.clients):
            if observation.kind == "model" and len(local_steps(observation, batch)) > 1:
                raise Unfit(f"attack: {attack} reads one gradient, and client {client} took several steps")
            slope, offset = (
                as_gradient(observation, observation.update(f"{name}.{part}", number), batch)[client].double()
                for part in ("weight", "bias")
            )
            logits = None if masked else _behind(model, layer, noise)
            weight, bias = layer.weight.detach(), layer.bias.detach()
            found = FirstLayer(
                weight, bias, slope, offset, batch, low, high, logits, of_batch, observation.plain
            )
            yield number, client, found


def _scaled(read: Tensor, pixels: Tensor) -> bool:
    """Return whether a layer read scaled pixels: each channel times a positive number, plus a number."""
    if read.shape != pixels.shape:
        return False
    over = (0, 2, 3)
    apart, wanted = (each - each.mean(over, keepdim=True) for each in (pixels, read))
    slope = (apart * wanted).sum(over, keepdim=True) / apart.square().sum(over, keepdim=True)
    return bool((slope > 0).all()) and torch.allclose(wanted, slope * apart)


def _behind(model: nn.Module, layer: nn.Module, images: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the rest of the network as a function of the layer's output."""

    def logits(output: Tensor) -> Tensor:
        # The output is copied, because the layers behind may work in place.
        with layer.register_forward_hook(lambda *_: output.clone()):
            return model(images[:1].expand(len(output), *images.shape[1:]))

    return logits
