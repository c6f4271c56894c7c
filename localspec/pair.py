"""Whether a draft fits a target, and whether the target's cache can be rolled back: from headers, before any weights.

The vocabulary rules are those of ``common_speculative_are_compatible`` in llama.cpp's ``common/speculative.cpp``: same
tokenizer family, same use of BOS and EOS, sizes within 128, same token texts from id 5 on. What only costs
acceptance, such as another token at the end of a reply, is a warning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from localspec import architecture
from localspec.errors import PairError
from localspec.header import Header, quoted

MAX_VOCAB_DIFFERENCE = 128
FIRST_COMPARED_TOKEN = 5

# Pre-tokenizer names that llama.cpp treats alike.
SAME_PRE_TOKENIZER = (
    {"llama3", "llama-v3", "llama-bpe"},
    {"qwen2", "deepseek-r1-qwen", "megrez"},
)  # fmt: skip
# Families that add a BOS unless the file says otherwise; the byte-pair family does so only for some pre-tokenizers.
ADDS_BOS = frozenset({"llama", "bert"})
BPE_ADDS_BOS = frozenset({
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano", "tekken",
    "chameleon", "gemma4",
})  # fmt: skip
# Family: (BOS, EOS) where the file states none.
DEFAULT_IDS = {"llama": (1, 2), "gpt2": (11, 11), "plamo2": (1, 2), "t5": (None, 1), "bert": (101, None)}


@dataclass(frozen=True, slots=True)
class PairReport:
    """Why a draft does not fit its target (``reasons``) and what the user should know although it does."""

    ok: bool
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    vocab_difference: int
    """Tokens by which the two vocabularies differ in size."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """How rejected tokens are taken back out of a model's cache.

    llama.cpp's ``llama_memory_seq_rm`` forgets any tail of a plain attention cache. The others:

    * A sliding-window cache keeps only the window (``llama_kv_cache_iswa``): positions that left it are gone, so a
      rollback of more than the few spare cells, or a reused prefix, would read a window with holes and change the
      text without an error. With ``swa_full`` it keeps everything.
    * A recurrent state (``llama_memory_recurrent``) cannot forget a token. With ``n_rs_seq`` snapshots it goes back by
      at most that many tokens, once between two decodes, in the architectures of ``llm_arch_supports_rs_rollback``;
      everywhere else llama.cpp clamps ``n_rs_seq`` to 0 and ``llama_memory_seq_rm`` returns false, changing nothing.
      Only the tokens of the last decode have snapshots (``build_recurrent_attn`` writes one for each), yet a longer
      rollback is accepted and restores a stale state: never go back by as many tokens as the last decode had.
    * A hybrid (``llama_memory_hybrid``) asks its recurrent part first, so the same holds for it.
    """

    kind: Literal["plain", "swa", "recurrent", "hybrid", "none"]
    swa_full: bool
    """The context must be made with ``swa_full``."""
    needs_rs_seq: bool
    """The context must be made with ``n_rs_seq`` of at least the most draft tokens of a round."""
    supported: bool
    reason: str | None
    """Why tokens cannot be taken back, one sentence; None where they can."""


def rollback(header: Header) -> Rollback:
    """How the cache of this model can be rolled back."""
    arch = header.architecture
    if (kind := architecture.unfit(header)) is not None:
        return Rollback("none", False, False, False, f"{_name(header)} is {kind}, which cannot write text.")
    windowed = header.sliding_window is not None
    if header.is_recurrent or header.is_hybrid:
        family: Literal["recurrent", "hybrid"] = "recurrent" if header.is_recurrent else "hybrid"
        if arch in architecture.RS_ROLLBACK:
            return Rollback(family, windowed, True, True, None)
        reason = f"{_name(header)} is a {family} model ({arch}) whose state llama.cpp cannot roll back."
        return Rollback(family, windowed, False, False, reason)
    return Rollback("swa" if windowed else "plain", windowed, False, True, None)


def check_pair(target: Header, draft: Header) -> PairReport:
    """Everything that speaks against decoding ``target`` with ``draft``, from the two headers alone."""
    reasons = [reason for header in (target, draft) if (reason := rollback(header).reason)]
    warnings: list[str] = []
    if not reasons and rollback(draft).needs_rs_seq:
        # A draft decodes one token at a time, and a recurrent state goes back only within its last decode.
        family = f"{rollback(draft).kind} model ({draft.architecture})"
        reasons = [f"{_name(draft)} is a {family} whose state cannot take back drafted tokens."]
    if not reasons:
        reasons, warnings = _vocabulary(target, draft)
    too_large, size_warning = _size(target, draft)
    reasons += [too_large] if too_large else []
    warnings += [size_warning] if size_warning else []
    difference = abs(target.n_vocab - draft.n_vocab)
    return PairReport(not reasons, tuple(dict.fromkeys(reasons)), tuple(warnings), difference)


def require_pair(target: Header, draft: Header, *, suggestion: str | None = None) -> PairReport:
    """``check_pair``, raising PairError with the reasons; ``suggestion`` names a draft that would fit."""
    report = check_pair(target, draft)
    if not report.ok:
        why = "; ".join(reason.rstrip(".").replace("The ", "the ", 1) for reason in report.reasons)
        hint = f"; use {suggestion} as the draft instead" if suggestion else ""
        raise PairError(f"{_name(draft)} cannot draft for {_name(target)}: {why}{hint}.")
    return report


def _name(header: Header) -> str:
    return header.source.replace("\\", "/").rsplit("/", 1)[-1]


def _vocabulary(target: Header, draft: Header) -> tuple[list[str], list[str]]:
    """Reasons and warnings from the two tokenizers."""
    if target.tokenizer != draft.tokenizer:
        ours, theirs = quoted(target.tokenizer or ""), quoted(draft.tokenizer or "")
        return [f"The target's tokenizer is {ours} and the draft's is {theirs}."], []
    pre, draft_pre = target.pre_tokenizer or "default", draft.pre_tokenizer or "default"
    unlike = pre != draft_pre and not any(pre in alike and draft_pre in alike for alike in SAME_PRE_TOKENIZER)
    split = f"The target splits text by the rules of {quoted(pre)} and the draft by those of {quoted(draft_pre)}"
    if difference := _difference(target, draft):
        return [f"{split}, and {difference}."] if unlike else [f"{difference[0].upper()}{difference[1:]}."], []
    # The draft is only ever shown the target's tokens: with equal tokens, other rules can only cost acceptance.
    warnings = [f"{split}, which may lower acceptance."] if unlike else []
    reasons: list[str] = []
    for role in ("bos", "eos"):
        reason, warning = _special_token(target, draft, role)
        reasons += [reason] if reason else []
        warnings += [warning] if warning else []
    return reasons, warnings


def _difference(target: Header, draft: Header) -> str | None:
    """What differs between the two token lists."""
    ours, theirs = target.tokens, draft.tokens
    if ours is None or theirs is None:
        return "one of them lists no tokens"
    if abs(len(ours) - len(theirs)) > MAX_VOCAB_DIFFERENCE:
        return (
            f"the target knows {len(ours)} tokens and the draft {len(theirs)}, more than {MAX_VOCAB_DIFFERENCE} apart"
        )
    if ours == theirs:
        return None
    for token in range(FIRST_COMPARED_TOKEN, min(len(ours), len(theirs))):
        if ours.raw(token) != theirs.raw(token):
            return f"token {token} is {quoted(ours[token])} in the target and {quoted(theirs[token])} in the draft"
    return None


def _special_token(target: Header, draft: Header, role: str) -> tuple[str | None, str | None]:
    """A reason or a warning where the two disagree on the token that begins or ends a text."""
    adds = _adds(target, role)
    if adds != _adds(draft, role):
        who, other = ("target", "draft") if adds else ("draft", "target")
        return f"The {who} adds a {role.upper()} token to every text and the {other} does not.", None
    ids = _special(target, role), _special(draft, role)
    if ids[0] == ids[1]:
        return None, None
    differ = f"The {role.upper()} token is {ids[0]} in the target and {ids[1]} in the draft"
    if adds:
        return f"{differ}.", None
    return None, f"{differ}, so the draft will not foresee the end of a reply." if role == "eos" else None


def _adds(header: Header, role: str) -> bool:
    stated = header.flag(f"tokenizer.ggml.add_{role}_token")
    if stated is not None:
        return stated
    if role == "eos":
        return header.tokenizer == "t5"
    return header.tokenizer in ADDS_BOS or header.pre_tokenizer in BPE_ADDS_BOS


def _special(header: Header, role: str) -> int | None:
    stated = header.special(role)
    if stated is not None and stated < header.n_vocab:
        return stated
    return DEFAULT_IDS.get(header.tokenizer or "", (None, None))[0 if role == "bos" else 1]


def _size(target: Header, draft: Header) -> tuple[str | None, str | None]:
    """A reason or a warning for a draft that is not clearly smaller."""
    if any(header.split_count > 1 and not header.shards for header in (target, draft)):
        return None, None  # only a part of a split model has been read, so its size is not known
    if draft.n_params > target.n_params:
        ours, theirs = _count(target.n_params), _count(draft.n_params)
        return f"The draft has {theirs} parameters and the target only {ours}.", None
    if draft.n_params == target.n_params and draft.weight_bytes >= target.weight_bytes:
        return None, "The draft is as large as the target, so speculation cannot be faster than the target alone."
    if draft.weight_bytes * 2 > target.weight_bytes:
        share = round(100 * draft.weight_bytes / target.weight_bytes)
        return None, f"The draft's weights are {share} % of the target's, so speculation will rarely be faster."
    return None, None


def _count(n_params: int) -> str:
    return f"{n_params / 1e9:.1f} billion" if n_params >= 1e9 else f"{n_params / 1e6:.0f} million"
