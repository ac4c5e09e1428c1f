"""The command line: argv -> settings -> exit code."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ddpcheck import __version__
from ddpcheck.errors import DdpcheckError, ExitCode, UsageError
from ddpcheck.launch.exit_codes import leave_exit_code
from ddpcheck.option_types import mesh, natural, percent, port, positive, seconds

# torch.distributed.launch and deepspeed hand it to what they start, beside the variable.
LOCAL_RANK = re.compile(r"--local[-_]rank=\d+")

EPILOG = """\
exit codes:
  0    no finding at or above --fail-on
  1    findings
  2    usage: the message says what to change
  3    internal error
  4    incomplete: a rank was lost, stalled or never came
  130  interrupted

Every option can be set by a variable: --report-dir by DDPCHECK_REPORT_DIR, and so on.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    code = _exit_code(sys.argv[1:] if argv is None else argv)
    leave_exit_code(os.environ, code)
    return code


def _exit_code(words: Sequence[str]) -> int:
    given = [word for word in words if not LOCAL_RANK.fullmatch(word)]
    options = build_parser().parse_args(given)
    try:
        return int(_dispatch(options, given))
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


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, whoever reads it, and however many ranks do."""

    def error(self, message: str) -> NoReturn:
        """End with exit code 2 and one line."""
        self.exit(ExitCode.USAGE, f"ddpcheck: {message}; see '{self.prog} --help'\n")


def build_parser() -> argparse.ArgumentParser:
    """Return the parser; each option's default comes from its DDPCHECK_ variable."""
    parser = Parser(
        prog="ddpcheck",
        description="The preflight and the sanitizer for distributed PyTorch training.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"ddpcheck {__version__}")
    commands = parser.add_subparsers(dest="name", required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="check a machine or cluster before a job"))
    _add_watch(commands.add_parser("watch", help="run your own script, and say what goes wrong"))
    _add_train(commands.add_parser("train", help="the reference training run"))
    _add_report(commands.add_parser("report", help="show a report, or what a crash left"))
    commands.add_parser("list", help="list the checks")
    explain = commands.add_parser("explain", help="the manual of one check")
    explain.add_argument("id", help="such as collectives/wrong-values")
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_launch_options(parser)
    add = _Adder(parser)
    add("--select", metavar="ID,...", help="run only these checks, families or patterns")
    add("--skip", metavar="ID,...", help="leave these out")
    add("--profile", choices=("quick", "standard", "full"), default="standard")
    add("--backend", choices=("auto", "gloo", "nccl"), default="auto")
    add(
        "--target",
        default="minigpt",
        metavar="TARGET",
        help="minigpt, convnet, MODULE:FACTORY or FILE.py:FACTORY",
    )
    add("--data", default="", metavar="FILE", help="text for the built-in targets")
    add(
        "--mesh",
        type=mesh,
        default=(),
        metavar="AXIS=RANKS,...",
        help="such as dp=2,tp=4: try the groups of this device mesh, too",
    )
    add(
        "--baseline",
        default="",
        metavar="REPORT",
        help="an earlier report of these machines: what is slower than in it is a finding",
    )
    add(
        "--baseline-bound",
        type=percent,
        dest="baseline_bound_ratio",
        default=0.05,
        metavar="PERCENT",
        help="what a collective may lose of the baseline's speed; default: 5",
    )
    add("--report-dir", default="reports", metavar="DIR")
    add("--fail-on", choices=("error", "warning"), default="error")
    add("--format", choices=("text", "json", "markdown"), default="text")
    add("--deadline", type=seconds, default=60.0, metavar="SECONDS", help="bound of each probe")


def _add_watch(parser: argparse.ArgumentParser) -> None:
    _add_launch_options(parser)
    add = _Adder(parser)
    add("--steps", type=natural, default=30, help="optimizer steps to watch; 0: to the end")
    add("--then", choices=("stop", "continue"), default="stop", help="what comes after them")
    add(
        "--baseline",
        default="",
        metavar="REPORT",
        help="the report of an earlier run of the script, to compare with",
    )
    add("--select", metavar="ID,...", help="run only these checks, families or patterns")
    add("--skip", metavar="ID,...", help="leave these out")
    add("--report-dir", default="reports", metavar="DIR")
    add("--fail-on", choices=("error", "warning"), default="error")
    add("--format", choices=("text", "json", "markdown"), default="text")
    add("--deadline", type=seconds, default=60.0, metavar="SECONDS", help="for ranks to come")
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module's name")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("script_words", metavar="ARGS", nargs=argparse.REMAINDER)


def _add_train(parser: argparse.ArgumentParser) -> None:
    _add_launch_options(parser)
    add = _Adder(parser)
    add("--from", dest="report", default="reports/latest", metavar="REPORT")
    add("--strategy", choices=("ddp",), default="ddp")
    add("--precision", choices=("fp32", "bf16", "fp16"), help="default: as the report recommends")
    add("--steps", type=positive, default=300)
    add("--global-batch", type=positive, default=32, metavar="SEQUENCES")
    add("--data", default="", metavar="FILE", help="text to train on; default: Python's own source")
    add("--checkpoint-dir", default="", metavar="DIR", help="default: beside the report")
    add("--backend", choices=("auto", "gloo", "nccl"), default="auto")
    add("--force", action="store_true", help="train whatever the report says")


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="REPORT_OR_DIR", nargs="?", default="reports/latest")
    _Adder(parser)("--format", choices=("text", "json", "markdown"), default="text")


def _add_launch_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("launch options, as torchrun's; ignored inside a launcher")
    add = _Adder(group)
    add("--nproc-per-node", type=positive, metavar="N", help="default: one a GPU, or 2")
    add("--nnodes", type=positive, default=1, metavar="N")
    add("--node-rank", type=natural, default=0, metavar="N")
    add("--master-addr", default="127.0.0.1", metavar="HOST")
    add("--master-port", type=port, default=29500, metavar="PORT")
    add("--rdzv-backend", default="static", metavar="NAME")
    add("--rdzv-endpoint", default="", metavar="HOST:PORT")
    add("--rdzv-id", default="none", metavar="ID")


class _Adder:
    """Adds options whose defaults come from the environment."""

    def __init__(self, parser: argparse._ActionsContainer) -> None:
        self._parser = parser

    def __call__(self, flag: str, **settings: Any) -> None:
        variable = "DDPCHECK_" + flag.strip("-").replace("-", "_").upper()
        given = os.environ.get(variable)
        if given and settings.get("action") == "store_true":
            settings["default"] = given.lower() not in {"0", "false", "no", "off"}
        elif given:
            # A text default goes through the option's type, as if it stood on the line.
            settings["default"] = given
        action = self._parser.add_argument(flag, **settings)
        if given and action.choices and given not in action.choices:
            # Told only by the command that has the option: see ``_check_variables``.
            action.default = BadVariable(variable, given, tuple(action.choices))


@dataclass(frozen=True)
class BadVariable:
    """The value of a DDPCHECK_ variable that its option does not take."""

    name: str
    value: str
    choices: tuple[str, ...]


def _check_variables(options: argparse.Namespace) -> None:
    for bad in vars(options).values():
        if isinstance(bad, BadVariable):
            choices = ", ".join(bad.choices)
            raise UsageError(f"{bad.name} is '{bad.value}'; choose from {choices}")


def _dispatch(options: argparse.Namespace, argv: Sequence[str]) -> int:
    _check_variables(options)
    from ddpcheck import commands

    if options.name == "run":
        return commands.run(_run_settings(options, argv), _launch_options(options), argv)
    if options.name == "watch":
        return commands.watch(_watch_settings(options, argv), _launch_options(options), argv)
    if options.name == "train":
        return commands.train(_train_settings(options, argv), _launch_options(options), argv)
    if options.name == "report":
        return commands.report(options.path, options.format)
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
    return shlex.join(["ddpcheck", *argv])
