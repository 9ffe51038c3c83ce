"""What an evaluation found, in words."""

from prudent.core.off_policy import EFFECTIVE_MIN, SUPPORT_ROWS_MIN, UNSUPPORTED_SHARE_MAX
from prudent.evaluation.evaluation import LEFT_OUT, Evaluation, PolicyValue, Refusal

EFFECTIVE_FEW = 50
HEAVY_SHARE = 0.1
"""Of all weight, in one decision."""
REWARDED_SPREAD_MAX = 0.05
ARMS_SHOWN = 5


def refused(policy: PolicyValue, refusal: Refusal) -> str:
    """Why a policy has no value."""
    if not refusal.arms:
        return f"{policy.name}: no value, because it would have chosen in no decision what the log chose."
    arms = [f"{arm} in {_share(part)}" for arm, part in list(refusal.arms.items())[:ARMS_SHOWN]]
    more = f" and {len(refusal.arms) - ARMS_SHOWN} more arms" if len(refusal.arms) > ARMS_SHOWN else ""
    return (
        f"{policy.name}: no value, because the log lacks support for it in {_share(refusal.share)} of the decisions "
        f"({', '.join(arms)}{more})."
    )


def notes(found: Evaluation) -> list[str]:
    """What was left out, what is refused, and where the numbers stop."""
    said = [f"{count} decisions {LEFT_OUT[reason]}: they are left out." for reason, count in found.left_out.items()]
    said += _on_rewards(found)
    refusals = [(one, one.refusal) for one in found.policies if one.refusal is not None]
    said += [refused(policy, refusal) for policy, refusal in refusals]
    if refusals:
        said.append(
            f"An arm has support in a decision where the policy's probability is at most {found.weight_limit:.4g} "
            f"times the campaign's, a {SUPPORT_ROWS_MIN}th of the number of decisions, and at most "
            f"{_share(UNSUPPORTED_SHARE_MAX)} may lack it. algorithm.uniform_share gives every arm a share of future "
            "decisions."
        )
    for policy in found.policies:
        if policy.refusal is None:
            said += _on_weights(policy)
    said.append(
        "The intervals (95%) are no guarantee: they need many effective rows, they cannot know outcomes that were not "
        "seen, and the campaign chose what to collect by what it had learned. Another configuration is judged decision "
        "by decision on what this campaign had collected, not on what it would have collected itself."
    )
    return said


def _on_rewards(found: Evaluation) -> list[str]:
    said = []
    shares = sorted((share, arm) for arm, share in found.rewarded.items())
    if shares and shares[-1][0] - shares[0][0] > REWARDED_SPREAD_MAX:
        (low, least), (high, most) = shares[0], shares[-1]
        said.append(
            f"Rewards are missing unevenly: {_share(low)} of the decisions for {least} have one and {_share(high)} of "
            f"those for {most}. If they are missing for what happened, the values are biased."
        )
    if found.defaults:
        said.append(f"{found.defaults} rewards are the campaign's default: they count as it counts them.")
    return said


def _on_weights(policy: PolicyValue) -> list[str]:
    said = []
    if policy.effective < EFFECTIVE_MIN:
        said.append(f"{policy.name}: no interval, with {policy.effective:.1f} effective rows.")
    elif policy.effective < EFFECTIVE_FEW:
        rare = max(policy.effective / 3, 2)
        said.append(
            f"{policy.name}: only {policy.effective:.0f} effective rows, so an outcome rarer than 1 in {rare:.0f} may "
            "not have been seen, and the interval may cover less often than it says."
        )
    if policy.largest_share > HEAVY_SHARE:
        said.append(f"{policy.name}: one decision has {_share(policy.largest_share)} of all weight.")
    if abs(policy.mean_weight - 1.0) > 4.0 * policy.mean_weight_error:
        said.append(
            f"{policy.name}: do not rely on its values: the mean weight should be 1 and is {policy.mean_weight:.3f}, "
            "so the propensities or the replay are wrong."
        )
    return said


def _share(share: float) -> str:
    return f"{share:.1%}" if 0.0 < share < 0.1 else f"{share:.0%}"
