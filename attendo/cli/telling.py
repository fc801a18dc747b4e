"""What is worth saying about translations beside themselves."""

from collections import Counter

from attendo.drafting import Translation
from attendo.reporting import Reporter


class Telling:
    """Says the first warnings, and how many more there were; and in the end what became of a glossary's terms."""

    MOST = 10

    def __init__(self, reporter: Reporter, unit: str) -> None:
        self.reporter = reporter
        self.unit = unit
        self.n_warnings = 0
        self.used: Counter[tuple[str, str]] = Counter()
        self.unused: Counter[tuple[str, str]] = Counter()

    def of(self, number: int, translation: Translation) -> None:
        for warning in translation.warnings:
            self.n_warnings += 1
            if self.n_warnings <= self.MOST:
                self.reporter.say(f"{self.unit} {number}: {warning.message}.")
            elif self.n_warnings == self.MOST + 1:
                self.reporter.say("There are more warnings; --json has them all.")
        for term in translation.terms:
            (self.used if term.used else self.unused)[term.source, term.target] += 1

    def terms(self) -> None:
        for source, target in dict.fromkeys([*self.used, *self.unused]):
            used, unused = self.used[source, target], self.unused[source, target]
            self.reporter.say(
                f"Glossary: {source} → {target}: used {used} time{'s' if used != 1 else ''}"
                + (f", not used {unused}." if unused else ".")
            )
