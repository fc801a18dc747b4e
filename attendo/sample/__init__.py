"""The English–German corpus that attendo writes for itself, so that it runs with no data."""

from attendo.sample.corpus import SampleSummary, distinct_sentences, write_sample

__all__ = ["SampleSummary", "distinct_sentences", "write_sample"]
