"""Secrets for tests, as hypothesis draws them, and where they hide."""

import string

from hypothesis import strategies as st

ALPHABET = string.ascii_letters + string.digits


def _of(alphabet: str, least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most)


def _shaped(prefix: str, least: int = 24) -> st.SearchStrategy[tuple[str, str]]:
    """Draw a secret that its shape gives away, and the text that it is told in: itself."""
    return _of(ALPHABET, least, least + 20).map(lambda body: (prefix + body, prefix + body))


def _called(
    pattern: str, alphabet: str = ALPHABET + "+/._~-"
) -> st.SearchStrategy[tuple[str, str]]:
    """Draw a secret that only its name gives away, and the text that names it."""
    # Digits alone may be a count, and a value that begins like an option is one.
    bodies = _of(alphabet, 12, 40).map(lambda body: f"q{body}Z")
    return bodies.map(lambda body: (body, pattern.format(body)))


SHAPED = st.one_of(
    *map(
        _shaped, ("hf_", "ghp_", "github_pat_", "glpat-", "sk-proj-1", "xoxb-1-", "npm_", "pypi-")
    ),
    *map(_shaped, ("AIza00000000000", "ya29.", "nvapi-", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIi.")),
    _of(string.ascii_uppercase + string.digits, 16, 16).map(lambda b: (f"AKIA{b}", f"AKIA{b}")),
    _of(ALPHABET, 20, 60).map(
        lambda b: (b, f"-----BEGIN PRIVATE KEY-----\n{b}\n-----END PRIVATE KEY-----")
    ),
)
CALLED = st.one_of(
    *map(
        _called, ("--api-key={}", "--password {}", "WANDB_API_KEY={}", "Authorization: Bearer {}")
    ),
    *map(
        _called, ("{{'token': '{}'}}", "dbPassword={}", "https://h/p?a=1&sig={}", "secret = '{}'")
    ),
    _called("https://me:{}@host/path", ALPHABET + "._~-"),
)
SECRETS = st.one_of(SHAPED, CALLED)
AROUND = st.sampled_from(
    ("{}", "at {} in f", '  File "x", line 3\n    f({})\n', "a\t{}\nb", "NCCL INFO {}")
)
