"""What is counted, for Prometheus. No ids as labels: their number has no bound."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SECONDS_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)


class Metrics:
    """One process's counters, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "prudent_requests", "Requests answered.", ["route", "method", "status"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "prudent_request_seconds",
            "Time to answer a request.",
            ["route"],
            buckets=SECONDS_BUCKETS,
            registry=self.registry,
        )
        self.decisions = Counter("prudent_decisions", "Decisions recorded.", registry=self.registry)
        self.observations = Counter(
            "prudent_observations", "Rewards and observations recorded.", registry=self.registry
        )
        self.batch_commands = Histogram(
            "prudent_batch_commands", "Commands in a batch.", buckets=BATCH_BUCKETS, registry=self.registry
        )
        self.batch_seconds = Histogram(
            "prudent_batch_seconds", "Time of a batch with its commit.", buckets=SECONDS_BUCKETS, registry=self.registry
        )
        self.reruns = Counter(
            "prudent_batch_reruns", "Batches run again after a conflict or a lost connection.", registry=self.registry
        )
        self.unavailable = Counter(
            "prudent_unavailable", "Commands refused for now, by reason.", ["reason"], registry=self.registry
        )
        self.queue_items = Gauge("prudent_queue_items", "Commands waiting.", registry=self.registry)
        self.states = Gauge("prudent_states", "Campaigns held in memory.", registry=self.registry)
        self.states_bytes = Gauge("prudent_states_bytes", "Memory that they hold.", registry=self.registry)
        self.uncertified_fits = Counter(
            "prudent_uncertified_fits", "Fits that did not meet the certificate of optimality.", registry=self.registry
        )
