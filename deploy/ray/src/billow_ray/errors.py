"""Errors that end a command. Each has the exit status that `billow embed` has for the same cause."""

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_INPUT = 65
EXIT_TRY_AGAIN = 75
EXIT_INTERRUPTED = 130


class JobError(Exception):
    """The job cannot be done as it was asked for. No other host can do it."""

    exit_status = EXIT_ERROR


class InputFault(JobError):
    """An input file is wrong, or too many of its rows are."""

    exit_status = EXIT_INPUT


class BillowUnavailable(Exception):
    """This host's Billow did not answer for too long. The shard can be done later, or by another host."""

    exit_status = EXIT_TRY_AGAIN
