"""What can go wrong for a user, and the exit code each kind ends with.

Every message names the thing, its value and the rule, and says what to do about it. The command line prints the
message alone; anything that is not an `AttendoError` is a bug and keeps its stack trace.
"""


class AttendoError(Exception):
    """Base of all errors that a user can do something about."""

    exit_code = 1


class ConfigError(AttendoError):
    """A setting is unknown or has an impossible value. Also wrong command-line arguments."""

    exit_code = 2


class DataError(AttendoError):
    """The text that was given cannot be used: missing, undecodable, unequal, empty."""

    exit_code = 3


class BundleError(AttendoError):
    """A model's folder is missing, damaged, of another format, or in the way."""

    exit_code = 4


class ForeignError(BundleError):
    """A folder of another toolkit cannot be imported, or a bundle has no counterpart there."""


class TrainingError(AttendoError):
    """Training cannot go on: the loss is not a number, or diverges."""

    exit_code = 5


class StorageError(AttendoError):
    """The disk is full, or the place cannot be written to."""

    exit_code = 6


class Interrupted(AttendoError):
    """Ctrl-C or SIGTERM, after everything needed to go on was saved."""

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
