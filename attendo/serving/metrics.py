"""What a server counts, for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Of one server: the registry is its own, so that several can live in a process."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self._requests = Counter(
            "attendo_requests", "Requests answered.", ["endpoint", "method", "status"], registry=own
        )
        self._seconds = Histogram(
            "attendo_request_seconds",
            "From a request to its answer's end.",
            ["endpoint"],
            buckets=SECONDS,
            registry=own,
        )
        self._refusals = Counter(
            "attendo_refusals", "Requests refused, by the limit they passed.", ["limit"], registry=own
        )
        self._errors = Counter("attendo_errors", "Requests that failed for a fault of the server.", registry=own)
        self._batch_sentences = Histogram(
            "attendo_batch_sentences", "Sentences searched together.", buckets=SIZES, registry=own
        )
        self._batch_seconds = Histogram("attendo_batch_seconds", "Time of a batch.", buckets=SECONDS, registry=own)
        self._pieces = Counter(
            "attendo_pieces", "Pieces of text, by side; their rate is tokens/s.", ["side"], registry=own
        )
        self._waiting = Gauge("attendo_queue_sentences", "Sentences that wait for their turn.", registry=own)
        self._open = Gauge("attendo_open_requests", "Requests that are being worked on or wait.", registry=own)

    def watch(self, *, waiting: Callable[[], float], open_requests: Callable[[], float]) -> None:
        """Where the two numbers are asked for that go up and down."""
        self._waiting.set_function(waiting)
        self._open.set_function(open_requests)

    def request(self, *, endpoint: str, method: str, status: int, seconds: float) -> None:
        self._requests.labels(endpoint, method, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def refusal(self, limit: str) -> None:
        self._refusals.labels(limit).inc()

    def error(self) -> None:
        self._errors.inc()

    def batch(self, *, sentences: int, seconds: float) -> None:
        self._batch_sentences.observe(sentences)
        self._batch_seconds.observe(seconds)

    def pieces(self, *, source: int, target: int) -> None:
        self._pieces.labels("source").inc(source)
        self._pieces.labels("target").inc(target)

    def page(self) -> bytes:
        return generate_latest(self.registry)
