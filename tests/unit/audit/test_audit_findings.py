"""Levels of records: read, recognisable, or neither."""

from dataclasses import replace

import numpy as np
import torch
from clients import faces

from leakbench.audit.client import Truth
from leakbench.audit.findings import LABELLED, NOTHING, READ, RECOGNISABLE, Found, score
from leakbench.audit.predictions import Look
from leakbench.audit.report import Audit
from leakbench.metrics.exact import exact


def truth(records: int = 6) -> Truth:
    images, labels = faces(records)
    # As files of 8 bits store them.
    return Truth((images[:, None] * 255).round() / 255, labels)


def test_copies_are_read_and_noise_is_nothing() -> None:
    known = truth()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert score(known.images[order], known.labels[order], known).levels == [LABELLED] * 6
    assert score(known.images[order], None, known).levels == [READ] * 6
    noise = torch.rand(46, *known.images.shape[1:], generator=torch.Generator().manual_seed(0))
    assert score(noise[:6], None, known).levels == score(noise[:0], None, known).levels == [NOTHING] * 6
    # More candidates than records may serve each.
    many = score(torch.cat([noise, known.images]), None, known)
    assert many.levels == [READ] * 6
    assert np.isfinite(many.error).all()
    # A record that was read keeps its candidate, however far all others are from those that were not.
    known = truth(3)
    far = torch.stack([known.images[0], known.images[1], 9 * known.images[1], 1e3 * known.images[2]])
    assert score(far, None, known).levels == [READ, READ, NOTHING]


def test_what_is_read_is_what_the_metric_calls_exact() -> None:
    known = truth()
    rng = torch.Generator().manual_seed(0)
    for step in (0.3, 0.7):
        near = known.images + step / 255 * (2 * torch.rand(known.images.shape, generator=rng) - 1)
        levels = score(near.clamp(0, 1), None, known).levels
        same = exact(near.numpy(), known.images.numpy())
        assert [level >= READ for level in levels] == (same == 1).tolist()


def test_a_blurred_record_is_recognisable_unless_noise_gives_as_much() -> None:
    known = truth()
    blurred = torch.nn.functional.avg_pool2d(known.images, 3, 1, 1)
    seen = score(blurred, None, known)
    assert seen.levels == [RECOGNISABLE] * 6
    assert score(blurred, None, known, seen.error).levels == [NOTHING] * 6
    mean = known.images.mean(0, keepdim=True).expand_as(known.images)
    assert score(mean, None, known).levels == [NOTHING] * 6


def test_a_wrong_proof_certifies_nothing() -> None:
    found = Found("peel", "Peeling", "exact", "B", "", 2, [READ, NOTHING], proven=2)
    assert "read 1 of 2 records (0 with label, 2 proven, 1 of them wrongly)" in found.line()
    audit = Audit(2, {}, Look(), found=[found])
    assert "certified" not in audit.headline()
    assert "1 of 2 are proven wrongly" in audit.page()
    audit.found = [replace(found, proven=1)]
    assert audit.headline().endswith("certified")
    assert "each record is proven" in audit.page()
