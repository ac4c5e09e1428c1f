"""The commands and their options."""

from __future__ import annotations

import argparse

from ddpcheck import __version__
from ddpcheck.option_parser import Adder, Parser
from ddpcheck.option_types import mesh, natural, pairs, percent, port, positive, seconds
from ddpcheck.render import formats
from ddpcheck.train.strategies import strategy_names

EPILOG = """\
exit codes:
  0    no finding at or above --fail-on
  1    findings
  2    usage: the message says what to change
  3    internal error
  4    incomplete: a rank was lost, stalled or never came
  130  interrupted

Every option can be set by a variable, --report-dir by DDPCHECK_REPORT_DIR, and so on; or in
ddpcheck.toml, or [tool.ddpcheck] in pyproject.toml: report-dir = "out".
"""


def build_parser() -> Parser:
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
    _add_diff(commands.add_parser("diff", help="what changed from one report to another"))
    commands.add_parser("list", help="list the checks")
    parser.commands = {name: each for name, each in commands.choices.items() if each.reads_file}
    explain = commands.add_parser("explain", help="the manual of one check")
    explain.add_argument("id", help="such as collectives/wrong-values")
    new = commands.add_parser("new", help="write a new check and its test, from a template")
    new.add_argument("id", metavar="FAMILY/NAME", help="such as data/too-few-shards")
    new.add_argument("--package", default="", metavar="DIR", help="of your own package of checks")
    return parser


def _add_run(parser: Parser) -> None:
    _add_launch_options(parser)
    add = Adder(parser)
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
        help="an earlier report of these machines: tell what changed since; exit 1 where it is worse",
    )
    add(
        "--baseline-bound",
        type=percent,
        dest="baseline_bound_ratio",
        default=0.05,
        metavar="PERCENT",
        help="what may be lost of the baseline's speed; default: 5",
    )
    add("--report-dir", default="reports", metavar="DIR")
    add("--fail-on", choices=("error", "warning"), default="error")
    add("--format", choices=formats(), default="text")
    _add_durations(add)
    add("--deadline", type=seconds, default=60.0, metavar="SECONDS", help="bound of each probe")
    _add_config(parser)


def _add_watch(parser: Parser) -> None:
    _add_launch_options(parser)
    add = Adder(parser)
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
    add("--format", choices=formats(), default="text")
    add("--deadline", type=seconds, default=60.0, metavar="SECONDS", help="for ranks to come")
    _add_config(parser)
    parser.add_argument("-m", "--module", action="store_true", help="SCRIPT is a module's name")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("script_words", metavar="ARGS", nargs=argparse.REMAINDER)


def _add_train(parser: Parser) -> None:
    _add_launch_options(parser)
    add = Adder(parser)
    add("--from", dest="report", default="reports/latest", metavar="REPORT")
    add(
        "--strategy",
        choices=(*strategy_names(), "all"),
        default="ddp",
        help="all: with --verify or --scaling",
    )
    add(
        "--mesh",
        type=mesh,
        default=(),
        metavar="AXIS=RANKS,...",
        help="such as dp=2,tp=2; default: as the strategy lays out all ranks",
    )
    add("--options", type=pairs, default=(), metavar="NAME=VALUE,...", help="the strategy's own")
    add("--precision", choices=("fp32", "bf16", "fp16"), help="default: as the report recommends")
    add("--steps", type=positive, default=300)
    add("--global-batch", type=positive, default=32, metavar="SEQUENCES")
    add(
        "--micro-batches",
        type=positive,
        metavar="N",
        help="pieces of a rank's batch; default: 1, or as many as a pipeline has stages",
    )
    add("--verify", action="store_true", help="prove the strategy equal to one process, and end")
    add("--verify-steps", type=positive, default=5, metavar="N")
    add("--scaling", action="store_true", help="measure it on 1, 2, 4, ... and all ranks, and end")
    add("--data", default="", metavar="FILE", help="text to train on; default: Python's own source")
    add("--checkpoint-dir", default="", metavar="DIR", help="default: beside the report")
    add(
        "--checkpoint-every",
        type=natural,
        default=100,
        metavar="STEPS",
        help="default: 100; 0: only the weights, at the end",
    )
    add("--resume", action="store_true", help="go on from the last checkpoint")
    add("--backend", choices=("auto", "gloo", "nccl"), default="auto")
    add("--force", action="store_true", help="train whatever the report says")
    _add_config(parser)


def _add_report(parser: Parser) -> None:
    parser.add_argument("path", metavar="REPORT_OR_DIR", nargs="?", default="reports/latest")
    add = Adder(parser)
    add("--format", choices=formats(), default="text")
    _add_durations(add)
    add("--rejudge", action="store_true", help="judge its facts again, with the checks of today")
    add(
        "--anonymize",
        action="store_true",
        help="replace hosts, users, addresses and paths, the same by the same",
    )
    add("--output", "-o", default="", metavar="FILE", help="write it there, as UTF-8")
    _add_config(parser)


def _add_diff(parser: Parser) -> None:
    parser.description = "Exit code 0: nothing is worse in NEW; 1: something is."
    parser.add_argument("old", metavar="OLD", help="a report.json or a run directory")
    parser.add_argument("new", metavar="NEW", help="a later one")
    add = Adder(parser)
    add("--format", choices=("json", "markdown", "text"), default="text")
    add(
        "--bound",
        type=percent,
        default=0.05,
        metavar="PERCENT",
        help="what may be lost of a speed, if it is beyond the noise, too; default: 5",
    )


def _add_durations(add: Adder) -> None:
    help_text = "in the text format: seconds by stage and by check, slowest first"
    add("--durations", action="store_true", help=help_text)


def _add_config(parser: Parser) -> None:
    help_text = "settings; default: ddpcheck.toml or pyproject.toml, from here upwards"
    Adder(parser)("--config", default="", metavar="FILE", help=help_text)
    del parser.options["config"]  # a file names no other
    parser.reads_file = True


def _add_launch_options(parser: Parser) -> None:
    group = parser.add_argument_group("launch options, as torchrun's; ignored inside a launcher")
    add = Adder(parser, group)
    add("--nproc-per-node", type=positive, metavar="N", help="default: one a GPU, or 2")
    add("--nnodes", type=positive, default=1, metavar="N")
    add("--node-rank", type=natural, default=0, metavar="N")
    add("--master-addr", default="127.0.0.1", metavar="HOST")
    add("--master-port", type=port, default=29500, metavar="PORT")
    add("--rdzv-backend", default="static", metavar="NAME")
    add("--rdzv-endpoint", default="", metavar="HOST:PORT")
    add("--rdzv-id", default="none", metavar="ID")
