"""What a campaign's page shows, made of what was read; numpy and loops over thousands, so off the event loop."""

from collections.abc import Sequence
from dataclasses import dataclass

from prudent.dashboard import figures, formatting, summary
from prudent.dashboard.figures import ArmLine, Figure, Theta
from prudent.dashboard.overview import Overview, usual_features
from prudent.ledger.commands import ModelReport, Prospect
from prudent.reporting.comparison import Learning

PARAMETERS_MAX = 24
"""Features in the chart of the parameters."""
NAMED_MAX = 6
"""Features that a sentence lists."""


@dataclass(frozen=True)
class CampaignView:
    """All of a page but the health of the service. usual: for which features the model was asked."""

    seen: Overview
    report: ModelReport | None
    lines: list[ArmLine]
    charts: dict[str, Figure | None]
    usual: str
    most_chosen: tuple[str, float] | None
    learning: Learning
    caution: str | None


def make_view(seen: Overview, report: ModelReport | None, prospect: Prospect | None) -> CampaignView:
    """Put it together; the model's part is missing where it did not answer."""
    reports = summary.arm_reports(seen)
    lines = summary.arm_lines(seen, reports, prospect)
    return CampaignView(
        seen=seen,
        report=report,
        lines=lines,
        charts=_charts(seen, lines, report),
        usual=_usual(seen),
        most_chosen=summary.most_chosen(seen),
        learning=summary.learning(seen, reports),
        caution=summary.caution(seen, reports),
    )


def _charts(seen: Overview, lines: Sequence[ArmLine], report: ModelReport | None) -> dict[str, Figure | None]:
    coloured = [line for line in lines if line.colour is not None]
    in_order = sorted(coloured, key=lambda line: line.colour or 0)
    return {
        "shares": figures.shares(seen),
        "worth": figures.worth(coloured, formatting.unit(seen.configuration)),
        "rewards": figures.rewards(seen, in_order, formatting.measure(seen.configuration)),
        "parameters": _parameters(seen, in_order, report),
    }


def _parameters(seen: Overview, lines: Sequence[ArmLine], report: ModelReport | None) -> Figure | None:
    if report is None or seen.configuration.model.type == "multi-armed" or not report.observations:
        return None
    thetas: list[Theta] = []
    if report.theta is not None:
        thetas.append(Theta("", None, report.theta, report.theta_intervals or []))
    else:
        by_id = {arm.arm_id: arm for arm in report.arms}
        for line in lines:
            arm = by_id.get(line.arm_id)
            if arm is not None and arm.theta is not None:
                thetas.append(Theta(line.arm_id, line.colour, arm.theta, arm.theta_intervals or []))
    return figures.parameters(report.feature_names[:PARAMETERS_MAX], thetas) if thetas else None


def _usual(seen: Overview) -> str:
    """For which features the estimates on the page are."""
    kind = seen.configuration.model.type
    if kind == "multi-armed":
        return "for the next decision"
    if kind == "shared":
        return "for the arms' registered features, or those they came with last"
    names = formatting.feature_names(seen.configuration)
    values = usual_features(seen)
    if values is None:
        return "for a context at the features' centers"
    listed = ", ".join(
        f"{name} {formatting.number(value)}" for name, value in zip(names[:NAMED_MAX], values, strict=False)
    )
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return f"for the average context of the newest {len(seen.recent)} decisions ({listed}{more})"
