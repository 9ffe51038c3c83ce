"""What was found in a log, as terminal tables with words beside them."""

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from prudent_simulator.offline_evaluation.arm_risks import ArmRisks, in_words
from prudent_simulator.offline_evaluation.estimates import FEW_ROWS, Value
from prudent_simulator.offline_evaluation.measures import Measure
from prudent_simulator.offline_evaluation.shadow import RARE_BELOW, Bin, Shadow
from prudent_simulator.offline_evaluation.uniform import UniformReplay
from prudent_simulator.offline_evaluation.weighted import WeightedEvaluation


def _number(value: float) -> str:
    return f"{value:.4g}"


def _between(ends: tuple[float, float] | None) -> str:
    return "unknown" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}"


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)


def print_arm_risks(console: Console, result: ArmRisks) -> None:
    """Print each arm's risks, the best of each column marked, and what they mean."""
    dial = result.dial
    shown = f"by {dial.noun} ({dial.values[0]:g} is {dial.first})"
    table = Table(title=f"What each arm was worth, {shown}; * is the best")
    table.add_column("Arm")
    table.add_column("Rewards", justify="right")
    for value in dial.values:
        table.add_column(f"{value:g}", justify="right")
    for place, arm in enumerate(result.arms):
        marks = ["*" if arm in leaders else "" for leaders in result.leaders]
        values = [f"{mark}{_number(risk)}" for mark, risk in zip(marks, result.risks[place], strict=True)]
        table.add_row(arm, str(result.counts[place]), *values)
    console.print(table)
    for sentence in in_words(result):
        _say(console, sentence)


def _values(title: str, measure: Measure, values: Mapping[str, Value]) -> Table:
    table = Table(title=title)
    for column in ("", "Mean", "95% interval", measure.name.capitalize(), "95% interval"):
        table.add_column(column, justify="right" if column else "left")
    for name, value in values.items():
        mean, risk = _number(value.mean), _number(value.risk)
        table.add_row(name, mean, _between(value.mean_interval), risk, _between(value.risk_interval))
    return table


def _warn_of_few(console: Console, matched: int, measure: Measure) -> None:
    if matched >= FEW_ROWS:
        return
    of_what = "bounds" if measure.rises_with_the_law else "bounds of the mean"
    _say(
        console,
        f"Only {matched} rows match: an outcome rarer than 1 in {max(matched // 3, 1)} may not have been seen, and the "
        "interval then covers less often than 95%. With --minimum and --maximum, a replay of uniform choices gives "
        f"{of_what} that allow for such outcomes.",
    )


def print_uniform(console: Console, result: UniformReplay, measure: Measure) -> None:
    """Print the value of the learning policy beside the log's."""
    _say(console, f"The log's choices were uniformly random, so the campaign was replayed. Risk: {measure}.")
    if result.absent:
        _say(
            console,
            f"By their propensity there were {result.absent} more arms, which the log lacks: the campaign does not "
            "have them either.",
        )
    rows = {f"campaign, {result.matched} matched rows": result.policy, f"log, all {result.rows} rows": result.log}
    console.print(_values("Value of the campaign while it learns", measure, rows))
    _warn_of_few(console, result.matched, measure)
    plays = ", ".join(f"{arm} {count}" for arm, count in result.plays.items())
    _say(console, f"Played: {plays} ({result.warmup_matched} in the warm-up).")
    _say(
        console,
        f"This estimates what the campaign would have earned over its first {result.matched} rounds, learning "
        "included, if the log's rows are independent and identically distributed. The intervals take the matched rows "
        "as given: they do not cover what the campaign would have learned from another log.",
    )


def print_weighted(console: Console, result: WeightedEvaluation, measure: Measure) -> None:
    """Print the values of the frozen policy beside the log's, and how much the weights can carry."""
    _say(
        console,
        f"{_not_uniform(result)}, so the campaign was fitted on the first {result.fitted} rows and frozen, and "
        f"its best-estimate choices were evaluated on the other {result.held_out}. Risk: {measure}.",
    )
    rows = {"campaign, SNIPS": result.snips, "campaign, IPS": result.ips, "log, same rows": result.log}
    console.print(_values("Value of the frozen campaign", measure, rows))
    _say(
        console,
        f"Risk of the campaign (SNIPS) minus that of the log: {_number(result.gain)} "
        f"({_between(result.gain_interval)}).",
    )
    _say(
        console,
        f"{result.matched} of {result.held_out} rows match; their effective sample size is "
        f"{result.effective_sample_size:.0f} (largest weight {_number(result.weight_max)}; mean weight "
        f"{result.mean_weight:.3f}, standard error {result.mean_weight_error:.3f}).",
    )
    _warn_of_few(console, result.matched, measure)
    if result.unsupported:
        _say(
            console,
            "Do not rely on these values: the mean weight should be 1, and is not. The log never tried some of the "
            "campaign's choices, or its propensities are wrong.",
        )
    _say(
        console,
        "This estimates a policy that no longer learns or explores. Live, the campaign does both: it starts where this "
        "one was frozen.",
    )


def _not_uniform(result: WeightedEvaluation) -> str:
    if result.common_propensity is None:
        return "The log's propensities differ"
    return f"Every propensity is {_number(result.common_propensity)}, which is not 1 / (number of arms)"


def print_shadow(console: Console, result: Shadow, measure: Measure) -> None:
    """Print calibration, agreement and support, and say what they are not."""
    _say(
        console,
        "This is not a value estimate: without propensities nobody can tell what the campaign's own choices would have "
        f"earned. The campaign was fitted on the first {result.fitted} rows and compared with the other "
        f"{result.held_out}. Risk: {measure}.",
    )
    table = Table(title="Calibration: predicted risk of the arm that was used, and observed risk")
    for column in ("Predicted from", "to", "Rows", "Predicted", "Empirical", "Off by", "95% interval", ""):
        table.add_column(column, justify="right")
    for group in result.bins:
        table.add_row(_number(group.predicted_min), _number(group.predicted_max), *_calibration(group))
    table.add_section()
    table.add_row("all", "", *_calibration(result.overall))
    console.print(table)
    _say(
        console,
        "Empirical is the risk of the rewards in the bin; off by is the risk of reward minus prediction, which is 0 "
        "for a calibrated campaign. Above 0 the campaign was too cautious, below 0 not cautious enough. By chance "
        "alone, one bin in twenty is outside its interval, and more where a bin has few bad outcomes.",
    )
    arms = Table(title="Recommendations on the held-out rows")
    for column in ("Arm", "Used", "Recommended", "Never used in similar cases", f"Fewer than {RARE_BELOW} times"):
        arms.add_column(column, justify="left" if column == "Arm" else "right")
    for arm in sorted(result.logged.keys() | result.recommended.keys()):
        parts = (result.logged, result.recommended, result.never, result.rarely)
        arms.add_row(arm, *(str(part.get(arm, 0)) for part in parts))
    console.print(arms)
    unsupported = sum(result.never.values()) + sum(result.rarely.values())
    among = f"{result.neighbours} most similar" if result.compares_cases else f"{result.neighbours}"
    _say(
        console,
        f"The campaign agrees with the incumbent in {result.agreement:.0%} of the rows. {unsupported} of "
        f"{result.held_out} recommendations lack support: the arm was used fewer than {RARE_BELOW} times in the "
        f"{among} fitted rows.",
    )


def _calibration(group: Bin) -> list[str]:
    verdict = "" if group.calibrated else "not calibrated"
    values = [_number(group.predicted), _number(group.empirical), _number(group.off_by)]
    return [str(group.rows), *values, _between(group.off_by_interval), verdict]
