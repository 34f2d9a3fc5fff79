"""An audit as SARIF 2.1.0, the format in which continuous integration reads findings."""

from typing import Any

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(audit: dict[str, Any]) -> dict[str, Any]:
    """Return a SARIF log with a result for each attack that read or recognised a record.

    audit: `Audit.to_dict()`.
    """
    place = audit["source"].partition(":")[0]
    results, rules = [], []
    for found in audit["found"]:
        read, seen = (sum(level >= least for level in found["levels"]) for least in (2, 1))
        if not seen:
            continue
        rules.append(
            {
                "id": f"leak/{found['attack']}",
                "shortDescription": {"text": f"{found['title']} ({found['source']})"},
            }
        )
        text = (
            f"{found['title']} reads {read} of {found['records']} records and makes {seen - read} more "
            "recognisable."
        )
        results.append(
            {
                "ruleId": rules[-1]["id"],
                "level": "error" if read else "warning",
                "message": {"text": text},
                "locations": [{"physicalLocation": {"artifactLocation": {"uri": place}}}],
                "properties": {
                    "attacker": found["attacker"],
                    "proven": found["proven"],
                    "seconds": found["seconds"],
                },
            }
        )
    driver = {"name": "leakbench audit", "version": audit["version"], "rules": rules}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
