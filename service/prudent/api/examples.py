"""Examples for the documentation; each works as printed against the demo campaign or after CAMPAIGN is created."""

CAMPAIGN = {
    "campaign_id": "dose-advice",
    "risk": {"measure": "expectile", "level": 0.1},
    "model": {"type": "shared", "dimension": 3},
    "arms": [{"arm_id": "a", "features": [1, 0, 0]}, {"arm_id": "b", "features": [0, 1, 0]}],
}
CHANGE = {"description": "Doses for adults.", "algorithm": {"exploration": 0.5}}
ARM = {"arm_id": "c", "features": [0, 0, 1]}
ARM_CHANGE = {"status": "paused"}
SELECT = {
    "campaign_id": "dose-advice",
    "decision_id": "visit-0001",
    "arms": [{"arm_id": "a", "features": [0.9, 0.1, 0.0]}, {"arm_id": "b", "features": [0.1, 0.9, 0.0]}],
}
REWARD = {"decision_id": "visit-0001", "reward": 1.25}
OBSERVATIONS = {"items": [{"observation_id": "2025-001", "arm_id": "a", "features": [1, 0, 0], "reward": 0.7}]}
