"""Metrics for Prometheus. Ids are labels only of campaigns that the operator has named: their number is unbounded."""

from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from prudent.observability.multiprocess import Slot, shared_registry

BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SECONDS_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
ALARMS = ("change", "no-rewards", "rewards-refused", "one-arm", "exploration-ended")
"""The kinds of alarm of a campaign."""
SUM = "livesum"
"""How a gauge is aggregated over workers: the sum over the living ones."""


class Metrics:
    """The metrics of one process, in a registry of its own.

    folder: shared by the workers of one `prudent serve`, whose sums are then shown; see
    `prudent.observability.multiprocess`.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._slot = None if folder is None else Slot(folder)
        # The library itself decides by an environment variable at import.
        values.ValueClass = values.MutexValue if self._slot is None else self._slot.value_class()
        self.registry = CollectorRegistry()
        self._count_requests()
        self._count_batches()
        self._count_results()

    def _count_requests(self) -> None:
        self.requests = self._counter("prudent_requests", "Requests answered.", ["route", "method", "status"])
        self.request_seconds = self._histogram(
            "prudent_request_seconds", "Time to answer a request.", SECONDS_BUCKETS, ["route"]
        )
        self.connections_closed = self._counter(
            "prudent_connections_closed", "Connections closed on their clients, to make room or as unread.", ["reason"]
        )
        for reason in ("room", "unread"):
            self.connections_closed.labels(reason)
        self.unavailable = self._counter("prudent_unavailable", "Commands refused with 503, by reason.", ["reason"])
        self.queue_items = self._gauge("prudent_queue_items", "Commands waiting in the queue.")
        self.workers = self._gauge("prudent_workers", "Processes that answer requests.")

    def _count_batches(self) -> None:
        self.batch_commands = self._histogram("prudent_batch_commands", "Commands per batch.", BATCH_BUCKETS)
        self.batch_seconds = self._histogram(
            "prudent_batch_seconds", "Time to run a batch, including its commit.", SECONDS_BUCKETS
        )
        self.commits = self._counter("prudent_commits", "Commits, by outcome: committed or unknown.", ["outcome"])
        for outcome in ("committed", "unknown"):
            self.commits.labels(outcome)  # a counter that appears later would seem not to have risen
        self.reruns = self._counter("prudent_batch_reruns", "Batches run again after a conflict or a lost connection.")

    def _count_results(self) -> None:
        self.decisions = self._counter("prudent_decisions", "Decisions recorded.")
        self.rewards = self._counter(
            "prudent_rewards", "Rewards of decisions recorded, including default rewards after a deadline."
        )
        self.observations = self._counter("prudent_observations", "Rewards and observations recorded.")
        self.events = self._counter("prudent_events", "Events received, by what became of them.", ["outcome"])
        for outcome in ("rewarded", "duplicate", "unmatched", "conflict", "refused"):
            self.events.labels(outcome)
        self.personalizer_rewards = self._counter(
            "prudent_personalizer_rewards",
            "Rewards of Personalizer's clients, by outcome.",
            ["outcome"],
        )
        for outcome in ("learned", "repeated", "different", "late"):
            self.personalizer_rewards.labels(outcome)
        self.missing_values = self._counter(
            "prudent_missing_values", "Values of named features that observations did not have."
        )
        self.unknown_categories = self._counter(
            "prudent_unknown_categories", "Values of observations that were none of their feature's categories."
        )
        self.ignored_attributes = self._counter(
            "prudent_ignored_attributes", "Values sent at the doors that are none of their campaigns' features."
        )
        self.states = self._gauge("prudent_states", "Campaigns held in memory.")
        self.states_bytes = self._gauge("prudent_states_bytes", "Memory used by the states of campaigns.")
        self.quarantined = self._gauge("prudent_quarantined_campaigns", "Campaigns whose rows cannot be learned.")
        self.damaged = self._gauge("prudent_damaged_logs", "Campaigns whose logs differ from their running digest.")
        self.change_detected = self._gauge(
            "prudent_change_detected", "Campaigns held in memory in whose rewards a change was found that stands."
        )
        self.fits = self._counter("prudent_fits", "Fits of the exact minimiser.")
        self.uncertified_fits = self._counter(
            "prudent_uncertified_fits", "Fits that did not meet the certificate of optimality."
        )
        self.bound_active_fits = self._counter(
            "prudent_bound_active_fits", "Fits in which the parameter bound was binding."
        )

    def _counter(self, name: str, text: str, labels: tuple[str, ...] | list[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry, multiprocess_mode=SUM)  # type: ignore[arg-type]  # one of its literals

    def _histogram(
        self, name: str, text: str, buckets: tuple[float, ...], labels: tuple[str, ...] | list[str] = ()
    ) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def render(
        self,
        pending: int | None,
        alarms: Mapping[str, Container[str]] = MappingProxyType({}),
        lag_seconds: float | None = None,
    ) -> bytes:
        """The text format that Prometheus scrapes.

        pending: decisions waiting for a reward; None if not known. alarms: the kinds raised in each named campaign.
        lag_seconds: of the replica; None where there is none, or if it is not known.
        """
        registry = self.registry if self._folder is None else shared_registry(self._folder)
        asked = CollectorRegistry()
        asked.register(_Asked(pending, alarms, lag_seconds))
        return generate_latest(registry) + generate_latest(asked)


class _Asked(Collector):
    """Gauges that are asked for at each scrape, and belong to no process."""

    def __init__(self, pending: int | None, alarms: Mapping[str, Container[str]], lag_seconds: float | None) -> None:
        self._pending, self._alarms, self._lag_seconds = pending, alarms, lag_seconds

    def collect(self) -> Iterator[Metric]:
        """The gauges."""
        if self._pending is not None:
            text = "Decisions waiting for a reward, in campaigns with timeout_seconds."
            yield GaugeMetricFamily("prudent_pending_decisions", text, value=self._pending)
        if self._lag_seconds is not None:
            text = "How far the replica of PRUDENT_READ_DATABASE_URL is behind."
            yield GaugeMetricFamily("prudent_replica_lag_seconds", text, value=self._lag_seconds)
        alarms = GaugeMetricFamily(
            "prudent_campaign_alarm",
            "1 where an alarm is raised, of the campaigns in PRUDENT_METRICS_CAMPAIGNS.",
            labels=["campaign", "kind"],
        )
        for campaign, raised in self._alarms.items():
            for kind in ALARMS:
                alarms.add_metric([campaign, kind], float(kind in raised))
        yield alarms
