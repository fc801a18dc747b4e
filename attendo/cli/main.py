"""The `attendo` command. Each command is a file of this folder, imported only when it is used."""

import errno
import importlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from attendo import __version__
from attendo.cli.results import ReaderGoneError
from attendo.errors import AttendoError, Interrupted

COMMANDS = {
    "check": "Find what is wrong with pairs of text, and clean them.",
    "train": "Train a translator from pairs of text, or another model.",
    "translate": "Translate lines of text.",
    "generate": "Continue a text, or fill its gaps.",
    "classify": "Tell the label of texts or pictures.",
    "embed": "Vectors of texts.",
    "evaluate": "Score a model on a test set; compare two translators.",
    "score": "Log probability of given translations.",
    "inspect": "Look inside: attention, beam, probabilities; what each head is worth.",
    "serve": "Serve bundles over HTTP.",
    "average": "Average the last checkpoints of a run.",
    "import": "Make a bundle of a model from Hugging Face.",
    "export": "Write a bundle for use elsewhere.",
    "info": "What a bundle is: sizes, data, scores, training.",
    "sample": "Write the built-in sample corpus.",
}

EPILOG = """\b
Exit codes: 0 done; 1 check found something broken, or a bug in attendo;
2 wrong arguments or settings; 3 unusable text; 4 missing, damaged or existing
bundle; 5 training diverged; 6 disk full or not writable; 130 stopped by
Ctrl-C; 143 stopped by SIGTERM."""


class Commands(click.Group):
    """Knows its commands by name and imports one when it is asked for, so that --help is instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"attendo.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="attendo")
def main() -> None:
    """From two text files to a translator.

    \b
    attendo train train.en train.de
    attendo translate runs/en-de-1 --text "A man rides a bicycle."
    """


def run() -> None:
    """Runs the command line; a known error is one line on standard error and its exit code."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        main(prog_name="attendo", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except AttendoError as error:
        _end(f"attendo: {error}", error.exit_code)
    except click.ClickException as error:
        error.show()
        _end(None, error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _end("attendo: interrupted.", 130)
    except (ReaderGoneError, BrokenPipeError):
        _end(None, 0)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _end("attendo: the disk is full: the results could not be written. Make room and try again.", 6)


def _terminated(number: int, _: FrameType | None) -> NoReturn:
    """SIGTERM ends a command as Ctrl-C does: what was begun is cleaned up on the way out."""
    raise Interrupted("stopped by SIGTERM.", number)


def _end(message: str | None, exit_code: int) -> None:
    """Leaves with a message, after the results that were complete; what cannot be written any more is let go."""
    try:
        if sys.stdout is not None:  # closed by whoever started us
            sys.stdout.flush()
    except OSError:  # Python would try, and complain, once more on the way out
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if message is not None:
        click.echo(message, err=True)
    sys.exit(exit_code)
