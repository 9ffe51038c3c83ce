"""A campaign's rules in words: what it goes by, what it knows, and how rewards and decisions are dealt with."""

from prudent.campaigns import Assignment, CampaignConfiguration, Holdout, RewardRules
from prudent.campaigns.configuration import MultiArmedModel, SharedModel
from prudent.campaigns.features import CategoryFeature, CyclicFeature, Features
from prudent.dashboard.formatting import count, number, percent, plural

NAMED_MAX = 12
"""Features and events that are named in a sentence."""
Rule = tuple[str, str]
"""A term, and what it is here."""


def rules(configuration: CampaignConfiguration) -> list[Rule]:
    """The rules of a resolved configuration, those that are not left out."""
    algorithm = configuration.algorithm
    found = [("Goes by", f"{configuration.measure().title}. {configuration.measure().aim}")]
    found.append(("Features", _features(configuration)))
    found.append(("Learns by", algorithm.name))
    if algorithm.exploration != 1:
        found.append(("Exploration", number(algorithm.exploration)))
    if algorithm.budget is not None:
        found.append(("Budget", f"at most {percent(algorithm.budget)} of the decisions explore"))
    if (baseline := algorithm.baseline) is not None:
        found.append(("Baseline", f"worth at most {percent(baseline.tolerance)} less than {baseline.arm_id} alone"))
    if algorithm.forgetting is not None:
        found.append(("Forgets", f"half of a weight after {count(algorithm.forgetting.half_life)} later observations"))
    found += _of_rewards(configuration.reward)
    found += _of_subjects(configuration.assignment)
    if configuration.holdout is not None:
        found.append(("Holdout", _holdout(configuration.holdout)))
    if configuration.client_side:
        found.append(("Flags", "web pages may evaluate it, with an evaluator's key"))
    if configuration.retention_days:
        days, rows = configuration.retention_days, configuration.log_retention_days
        log = f", and its log for {plural(rows, 'day')}" if rows else ""
        found.append(("Keeps", f"its decisions for {plural(days, 'day')}{log}"))
    if configuration.log_candidates:
        found.append(("Log", "keeps all candidates of each decision"))
    return found


def _features(configuration: CampaignConfiguration) -> str:
    model = configuration.model
    if isinstance(model, MultiArmedModel):
        return "none: each arm has one value"
    described = model.features
    of = "of each arm, one model for all" if isinstance(model, SharedModel) else "of the request, a model per arm"
    if described is None:
        return f"{plural(model.dimension or 0, 'number')} {of}"
    named = [_feature(one) for one in described]
    if isinstance(model, SharedModel) and model.context_features:
        named += [f"{_feature(one)} of the request" for one in model.context_features]
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return f"{', '.join(named[:NAMED_MAX])}{more}; {of}"


def _feature(one: Features) -> str:
    if isinstance(one, CategoryFeature):
        return f"{one.name} ({plural(one.positions, 'category', 'categories')})"
    if isinstance(one, CyclicFeature):
        return f"{one.name} (cyclic, period {one.period:g})"
    return f"{one.name} ({one.kind})"


def _of_rewards(reward: RewardRules) -> list[Rule]:
    found = []
    if reward.minimum is not None or reward.maximum is not None:
        found.append(("Rewards", f"from {_bound(reward.minimum)} to {_bound(reward.maximum)}"))
    if reward.timeout_seconds is not None:
        missing = "none is learned" if reward.default is None else f"{number(reward.default)} is learned"
        found.append(("Deadline", f"{duration(reward.timeout_seconds)} for a reward; past it {missing}"))
    if reward.events:
        more = f" and {len(reward.events) - NAMED_MAX} more" if len(reward.events) > NAMED_MAX else ""
        found.append(("Rewarded by events", ", ".join(sorted(reward.events)[:NAMED_MAX]) + more))
    return found


def _bound(value: float | None) -> str:
    return "any" if value is None else number(value)


def _of_subjects(assignment: Assignment) -> list[Rule]:
    if assignment.sticky_seconds is None:
        return []
    return [("Sticky", f"the first decision for a subject stands for {duration(assignment.sticky_seconds)}")]


def _holdout(holdout: Holdout) -> str:
    whom = "an arm drawn uniformly" if holdout.arm_id is None else holdout.arm_id
    return f"{percent(holdout.share)} get {whom} instead of the policy's choice"


def duration(seconds: float) -> str:
    """A length of time in its largest whole unit."""
    for size, noun in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            return plural(int(seconds // size), noun)
    return f"{number(seconds)} seconds"
