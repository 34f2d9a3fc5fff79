"""What an attacker sees, and what it claims to have read from it."""

from leakbench.base.door import door

# A Flower app records its rounds without torch, which the other names need.
__getattr__, __dir__ = door(
    __name__,
    {
        "Observation": "leakbench.observations.observation",
        "Reconstruction": "leakbench.observations.reconstruction",
        "ThreatModel": "leakbench.observations.threat_model",
        "record": "leakbench.observations.flower",
    },
)
