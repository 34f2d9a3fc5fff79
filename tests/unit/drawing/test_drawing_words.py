"""The words for metrics and numbers, and the threat model in one line."""

from leakbench.results.figures import words


def test_values_of_any_column() -> None:
    assert words.called("local_samples", "4") == "4 images"
    assert words.called("client", "1") == "client 1"
    assert words.called("pass", "0") == "pass 1"
    assert words.called("noise", "1e-1") == "1e-1"
    assert words.called("client", "") == ""
    assert words.called("metric", "lock_share") == "lock share"


def test_a_threat_model_of_several_cells_hides_no_difference() -> None:
    cells = {
        "a": {"defence": "none", "labels": "known", "threat model": "curious"},
        "b": {"defence": "noise", "labels": "known", "threat model": "curious"},
    }
    assert words.threat(cells) == "curious; labels: known; defence: none or noise"
    assert words.threat(cells["a"]) == "curious; labels: known; defence: none"
    assert words.threat({}) == ""


def test_counts_and_lists() -> None:
    assert words.listed([1, 2, 3]) == "1, 2, 3"
    assert words.listed(list(range(10))) == "0, 1 … 9"
    assert words.span([200, 20.0, float("nan")]) == "20 to 200"
    assert (words.span([5]), words.span([])) == ("5", "0")
