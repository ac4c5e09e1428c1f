r"""What looks like a secret wherever it stands, whatever it is called.

The prefixes are those that the issuers document so that leaked tokens can be found: GitHub, GitLab,
Hugging Face, OpenAI, Anthropic, Slack, AWS, Google, npm, PyPI, NVIDIA, Docker, Stripe and others.
Hexadecimal digits alone are none: commits, checksums, digests and ids of NCCL look like that.
"""

from __future__ import annotations

import re

# Of a token nothing but its characters may be beside it.
BEFORE = r"(?<![A-Za-z0-9])"
TOKENS = (
    r"gh[pousr]_[A-Za-z0-9]{16,}",
    r"github_pat_\w{16,}",
    r"gl(?:pat|ptt|dt|rt|cbt|soat)-[\w-]{16,}",
    r"(?:api_org|hf)_[A-Za-z0-9]{16,}",
    # A word that goes on with hyphens is no key, unless it begins as those of a vendor do.
    r"sk-(?:ant|proj|svcacct|admin|or|lf)-(?=[\w-]{0,40}[0-9])[\w-]{16,}",
    r"sk-(?=[\w-]{0,40}[0-9])(?=[\w-]{0,60}[A-Za-z0-9_]{16})[\w-]{16,}",
    r"[srp]k_(?:live|test)_[A-Za-z0-9]{10,}",
    r"xox[a-z]-[\w-]{10,}",
    r"xapp-[\w-]{10,}",
    r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{12,}",
    r"AIza[\w-]{30,}",
    r"ya29\.[\w.-]{10,}",
    r"1//0[\w-]{20,}",
    r"npm_[A-Za-z0-9]{20,}",
    r"pypi-[\w-]{16,}",
    r"(?:nvapi|dckr_pat|dckr_oat|dop_v1|whsec|shpat|lin_api|tskey|rubygems|sntrys)[-_][\w-]{16,}",
    r"(?:gsk|r8)_[A-Za-z0-9]{16,}",
    r"SG\.[\w-]{16,40}\.[\w-]{16,}",
    r"eyJ[\w-]{6,400}\.[\w-]{6,}(?:\.[\w-]*)?",
    r"hvs\.[\w-]{20,}",
)
PEM = (
    r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----END).)*(?:-----END [A-Z0-9 ]*-----)?"
)
# The part of an address before the @; what stands before a port and a path is none. Where a pattern
# may fail after much text, its length is bounded: a text of another machine may be made to fail often.
LOGIN = r"(?<=://)(?:[^/@\s:'\"<>]{0,400}:(?!\d{1,5}(?:[/?#]|$))[^\s'\"<>]{0,400}|[^/@\s'\"<>]{1,400})(?=@)"
# Signatures of addresses in clouds: AWS, Google, Azure (SAS), CloudFront.
SIGNED = (
    r"(?<=[?&;])(?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|sig|Signature|"
    r"AWSAccessKeyId|GoogleAccessId|Key-Pair-Id|Policy)=(?P<signature>[^&\s'\"<>]+)"
)
# A word of a sentence, as in "basic configuration", has neither digits nor capitals within.
BEARER = (
    r"(?i:\b(?:bearer|basic)) +"
    r"(?=[\w.~+/-]{0,400}[0-9=]|[\w.~+/-]{1,400}[A-Z])(?P<bearer>[\w.~+/=-]{8,})"
)
SHAPE = re.compile(
    f"(?P<token>{BEFORE}(?:{'|'.join(TOKENS)})|{PEM}|{LOGIN})|{SIGNED}|{BEARER}", re.DOTALL
)
