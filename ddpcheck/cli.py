"""The command line: argv -> settings -> exit code."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from ddpcheck.command_options import build_parser
from ddpcheck.errors import DdpcheckError, ExitCode
from ddpcheck.launch.exit_codes import leave_exit_code
from ddpcheck.launch.leaving import leave
from ddpcheck.option_parser import check_variables
from ddpcheck.render import require

# torch.distributed.launch and deepspeed hand it to what they start, beside the variable.
LOCAL_RANK = re.compile(r"--local[-_]rank=\d+")


def command() -> NoReturn:
    """Run the command line of this process, and end with its exit code."""
    words = sys.argv[1:]
    code = main(words)
    # A script that was watched ends as it does by itself.
    if "torch" in sys.modules and _given(words)[:1] != ["watch"]:
        leave(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    code = _exit_code(sys.argv[1:] if argv is None else argv)
    leave_exit_code(os.environ, code)
    return code


def _given(words: Sequence[str]) -> list[str]:
    return [word for word in words if not LOCAL_RANK.fullmatch(word)]


def _exit_code(words: Sequence[str]) -> int:
    given = _given(words)
    try:
        return int(_dispatch(_understood(given), given))
    except DdpcheckError as error:
        sys.stderr.write(f"ddpcheck: {error}\n")
        return int(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("ddpcheck: interrupted\n")
        return int(ExitCode.INTERRUPTED)
    except Exception:
        # Python would end with 1, which means findings: a bug must not look like one.
        traceback.print_exc()
        sys.stderr.write("ddpcheck: internal error: please report it, with the lines above\n")
        return int(ExitCode.INTERNAL)


def _understood(words: Sequence[str]) -> argparse.Namespace:
    """Return the options, with defaults from the settings file for commands that read one."""
    parser = build_parser()
    options = parser.parse_args(words)
    if options.name not in parser.commands:
        return options
    from ddpcheck.config.file import settings_file, working_directory
    from ddpcheck.config.judging import configuration_of
    from ddpcheck.config.options import set_defaults

    file = settings_file(options.config, working_directory())
    taken = set_defaults(file, parser.commands, options.name, os.environ)
    if file.content:
        options = parser.parse_args(words)
    options.configuration = configuration_of(file, taken)
    return options


def _dispatch(options: argparse.Namespace, argv: Sequence[str]) -> int:
    check_variables(options)
    if "format" in options:
        options.format = _format(options)
        require(options.format)
    from ddpcheck import commands

    if options.name == "run":
        return commands.run(_run_settings(options, argv), _launch_options(options), argv)
    if options.name == "watch":
        return commands.watch(_watch_settings(options, argv), _launch_options(options), argv)
    if options.name == "train":
        return commands.train(_train_settings(options, argv), _launch_options(options), argv)
    return _dispatch_reading(options)


def _format(options: argparse.Namespace) -> str:
    """Return the format that is asked for: the one with durations is text, and more."""
    with_durations = "durations" in options and options.durations
    return "durations" if with_durations and options.format == "text" else str(options.format)


def _dispatch_reading(options: argparse.Namespace) -> int:
    """Carry out a command that starts no rank."""
    from ddpcheck import commands

    if options.name == "report":
        return commands.report(
            options.path,
            options.format,
            options.output,
            rejudge=options.rejudge,
            anonymize=options.anonymize,
        )
    if options.name == "diff":
        return commands.diff(options.old, options.new, options.format, options.bound)
    if options.name == "new":
        return commands.new(options.id, options.package)
    if options.name == "explain":
        return commands.explain(options.id)
    return commands.list_checks()


def _launch_options(options: argparse.Namespace) -> Any:
    from ddpcheck.settings import LaunchOptions

    return LaunchOptions(**_those_of(LaunchOptions, options))


def _run_settings(options: argparse.Namespace, argv: Sequence[str]) -> Any:
    from ddpcheck.check import Profile
    from ddpcheck.finding import Severity
    from ddpcheck.settings import RunSettings

    values: dict[str, Any] = _those_of(RunSettings, options) | {
        "select": _listed(options.select),
        "skip": _listed(options.skip),
        "profile": Profile(options.profile),
        "fail_on": Severity(options.fail_on),
        "deadline_s": options.deadline,
        "command": _command(argv),
    }
    return RunSettings(**values)


def _watch_settings(options: argparse.Namespace, argv: Sequence[str]) -> Any:
    from ddpcheck.finding import Severity
    from ddpcheck.settings import WatchSettings

    return WatchSettings(
        script=(options.script, *options.script_words),
        is_module=options.module,
        steps=options.steps,
        then=options.then,
        select=_listed(options.select),
        skip=_listed(options.skip),
        baseline=options.baseline,
        report_dir=options.report_dir,
        fail_on=Severity(options.fail_on),
        format=options.format,
        deadline_s=options.deadline,
        target=options.script,
        configuration=options.configuration,
        command=_command(argv),
    )


def _train_settings(options: argparse.Namespace, argv: Sequence[str]) -> Any:
    from ddpcheck.settings import TrainSettings

    values: dict[str, Any] = _those_of(TrainSettings, options) | {"command": _command(argv)}
    return TrainSettings(**values)


def _those_of(kind: Any, options: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(options).items() if name in kind.__annotations__}


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def _command(argv: Sequence[str]) -> str:
    from ddpcheck.secrecy.redaction import redacted_words

    # It goes into reports; what runs has the words themselves.
    return shlex.join(["ddpcheck", *redacted_words(argv)])
