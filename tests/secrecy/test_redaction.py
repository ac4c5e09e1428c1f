"""What is taken out of a text as a secret, and what is left."""

import re
import time

import msgspec
import pytest

from ddpcheck.finding import Finding
from ddpcheck.report import LastSeen, RankOutcome, RankRecord
from ddpcheck.secrecy.names import is_secret
from ddpcheck.secrecy.redaction import HIDDEN, redacted, redacted_text, redacted_words

SHAPES = [
    "hf_" + "aB3" * 10,
    "ghp_" + "aB3" * 12,
    "gho_" + "aB3" * 12,
    "github_pat_" + "11AA_" * 12,
    "glpat-" + "aB3-_" * 4,
    "sk-" + "aB3" * 14,
    "sk-ant-api03-" + "aB3_-" * 14,
    "sk-proj-" + "aB3" * 20,
    "sk-or-v1-" + "aB3-" * 14,
    "shpat_" + "aB3" * 11,
    "rubygems_" + "aB3" * 16,
    "gsk_" + "aB3" * 17,
    "r8_" + "aB3" * 12,
    "sk_live_" + "aB3" * 8,
    "xoxb-1234567890-" + "aB3" * 8,
    "AKIA" + "ABCD1234EFGH5678",
    "ASIA" + "ABCD1234EFGH5678",
    "AIza" + "aB3-_" * 7,
    "ya29.a0" + "aB3-_" * 9,
    "npm_" + "aB3" * 12,
    "pypi-AgEI" + "aB3-_" * 12,
    "nvapi-" + "aB3-_" * 12,
    "dckr_pat_" + "aB3-_" * 5,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc=\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
]
NAMED = [
    "--api-key={}",
    "--api-key {}",
    "train.py --lr 0.1 --hf-token '{}' --steps 3",
    "'--db-password={} and more'",
    "WANDB_API_KEY={}",
    "export AWS_SECRET_ACCESS_KEY={} && x",
    "Authorization: Bearer {}",
    "Authorization: Basic {}",
    "{{'Authorization': 'Token {}'}}",
    '{{"password": "{}", "user": "me"}}',
    "login(user='me', password='{}')",
    "AccountName=x;AccountKey={};EndpointSuffix=y",
    "https://host/path?x=1&sig={}&se=2",
    "https://bucket/key?X-Amz-Signature={}&X-Amz-Date=1",
    "https://bucket/key?X-Goog-Credential={}",
    "https://me:{}@host/path",
    "postgres://me:p@ss{}@host:5432/db",
    "RuntimeError: cannot log in with dbPassword: {}",
    "secret = {}",
]
VALUES = ["0123456789abcdef0123456789abcdef01234567", "hunter2hunter2", "aB+/=%21.-_x9"]
# What must stay: it tells of the machine, and of nobody.
INNOCENT = [
    "commit cf30153c4b2f0123456789abcdef0123456789ab",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "72c42adc-3723-4c00-b61c-1e1e7f03f7c0/4026531836",
    "GPU-c422a366-d6ee-b87d-50f4-1882b1497d37",
    "ncclUniqueId 0x7f3a commId 0x8ffbd0a1c3e4 nranks 2 pid 10031",
    "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
    "NCCL_IB_PKEY=1 NCCL_ALGO=Ring PWD=/home/me",
    "KeyError: 'layers.0.attention.key.weight'",
    "Missing key(s) in state_dict: key: value, key_padding_mask",
    "max_tokens=2048 num_tokens: 100 tokens_per_s: 52000 eos_token_id=2 pad_token=<pad>",
    "--tokenizer gpt2 --token-budget 4096 --max-tokens 8",
    "unexpected token: x",
    "http://node1:29500/path@v2 tcp://10.0.0.1:29500",
    "pip install git+https://github.com/NVIDIA/apex@23.08",
    "/opt/venv/lib/python3.11/site-packages/torch/_utils.py:12 in sk_learn",
    "gsk-head-0123456789abcdef r8-variant-0123456789abcdef0123",
    "basic configuration and bearer-of-bad-news",
    "task-sklearn-classification-of-things risk-and-secretary",
    '  File "/data/keys/author.py", line 3, in authenticate_all',
    "token=None password='' secret: false",
]


@pytest.mark.parametrize("secret", SHAPES, ids=lambda secret: secret[:12])
@pytest.mark.parametrize("around", ["{}", "x={}", "at '{}', in f", "/tmp/{}/train.py", "a\n{}\nb"])
def test_what_looks_like_a_secret_is_hidden_wherever_it_stands(secret: str, around: str) -> None:
    told = redacted_text(around.format(secret))
    assert secret not in told
    assert told == around.format(HIDDEN) or told.startswith(around.partition("{}")[0] + HIDDEN)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("text", NAMED)
def test_what_is_called_a_secret_is_hidden(text: str, value: str) -> None:
    told = redacted_text(text.format(value))
    assert value not in told
    assert HIDDEN in told


@pytest.mark.parametrize("value", VALUES[:2])
def test_a_login_without_a_password_is_hidden(value: str) -> None:
    assert redacted_text(f"https://{value}@host/path") == f"https://{HIDDEN}@host/path"


@pytest.mark.parametrize("text", INNOCENT)
def test_what_is_none_stays(text: str) -> None:
    assert redacted_text(text) == text


@pytest.mark.parametrize(
    "text", [*(t.format(VALUES[0]) for t in NAMED), *SHAPES], ids=lambda text: text[:20]
)
def test_to_redact_twice_changes_nothing_more(text: str) -> None:
    once = redacted_text(text)
    assert redacted_text(once) == once


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *((name, True) for name in ("HF_TOKEN", "apiKey", "--api-key", "db_password", "GH_PAT")),
        *((name, True) for name in ("Authorization", "set-cookie", "MY_KEY", "AWSSecretAccessKey")),
        *((name, False) for name in ("key", "keys", "tokens", "pad_token", "NCCL_IB_PKEY", "PWD")),
        *((name, False) for name in ("tokenizer", "author", "keyboard", "passed", "", "host")),
    ],
)
def test_names_of_secrets(name: str, *, secret: bool) -> None:
    assert is_secret(name) is secret


def test_words_of_a_command_are_told_apart() -> None:
    words = ["train.py", "--password", "two words", "--token=a b", "--verbose", "--lr", "0.1"]
    told = ["train.py", "--password", HIDDEN, f"--token={HIDDEN}", "--verbose", "--lr", "0.1"]
    assert redacted_words(words) == told
    assert redacted({"argv": words})["argv"] == told


def test_everything_that_holds_texts_is_looked_at_and_keeps_its_type() -> None:
    secret = SHAPES[0]
    record = RankRecord(
        rank=1, host=secret, outcome=RankOutcome.LOST, last_seen=LastSeen("a/b", f"x {secret}")
    )
    told = redacted((record, {secret: [secret, 1, None, 0.5]}, {"HF_TOKEN": "short"}))
    assert secret not in repr(told)
    assert isinstance(told[0], RankRecord)
    assert told[0].last_seen == LastSeen("a/b", f"x {HIDDEN}")
    assert told[1:] == ({HIDDEN: [HIDDEN, 1, None, 0.5]}, {"HF_TOKEN": HIDDEN})


def test_names_that_only_differ_in_their_secrets_stay_apart() -> None:
    assert redacted({SHAPES[0]: 1, SHAPES[1]: 2}) == {HIDDEN: 1, f"{HIDDEN} (2)": 2}


def test_what_has_no_secret_is_the_same_object() -> None:
    facts = {
        "host": "node1",
        "values": ({"a": "b"}, ["c"]),
        "key.weight": ["8f3c8b68812b110e", 0.5],
    }
    assert redacted(facts) is facts
    finding = Finding(title="t", message="m", fix="f", ranks=(0,))
    assert redacted(finding) is finding


def test_values_of_the_processs_own_secret_variables_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", "plain words it's")
    monkeypatch.setenv("OTHER_PASSWORD", "short")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json")
    text = "refused: 'plain words it's' is too short in /home/me/key.json"
    assert redacted_text(text) == f"refused: '{HIDDEN}' is too short in /home/me/key.json"
    assert HIDDEN in redacted_text(repr("plain words it's") + ' "plain%20words%20it%27s"')
    monkeypatch.delenv("MY_SERVICE_TOKEN")
    assert redacted_text(text) == text


@pytest.mark.parametrize(
    "hostile",
    [
        *("://a:", "eyJ-", "sk-", "token=", "max_token=", "key ", "x-", "'token'='", "--token "),
        *("SG.-", "Bearer ", "-----BEGIN PRIVATE KEY-----", "a", "&sig", "key=\\", "http://x@"),
    ],
)
def test_a_long_text_of_another_machine_takes_no_long_time(hostile: str) -> None:
    text = hostile * (10**5 // len(hostile))
    began = time.process_time()
    redacted_text(text)
    assert time.process_time() - began < 1.0


def test_thousands_of_ranks_cost_next_to_nothing() -> None:
    facts = [
        {
            "host": f"node{rank // 8}",
            "values": {"PATH": "/opt/bin:/usr/bin", "rank": rank},
            "n": 0.5,
        }
        for rank in range(4096)
    ]
    began = time.process_time()
    assert redacted(facts) is facts
    assert time.process_time() - began < 1.0


def test_other_values_pass_as_they_are() -> None:
    value = [b"x", 1.5, None, re.compile("a"), msgspec.UNSET]
    assert redacted(value) is value
