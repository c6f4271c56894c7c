"""More than a thousand broken GGUFs: each is a clear error or a model that loads, and only a probe may die of one.

The mutations are seeded, so that a failure can be repeated. Headers that pass the check go to llama.cpp in a child, and
what passes there is then loaded the ordinary way, all in one more process that must survive.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutations
import pytest
import synthetic
from mutations import Mutation

from localspec.errors import GGUFError, LocalspecError, ModelError
from localspec.gguf import Header, read_header, read_header_from
from localspec.memory import estimate
from localspec.pair import check_pair, rollback
from localspec.probe import probe

LOAD_ALL = """
import sys
from pathlib import Path
from localspec import llama
for name in sys.argv[1:]:
    with llama.opened(Path(name), None, llama.ContextOptions(n_ctx=512)) as context:
        context.decode([3, 4, 5, 6], 4)
print("survived")
"""


class Bytes:
    """Part of a file that claims to be whole."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.size = data, size

    def read(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]


def require_sentence(error: LocalspecError, what: str) -> None:
    """An error's text must be fit for the user: one line, bounded, printable."""
    text = str(error)
    assert text.isprintable(), (what, text)
    assert text.endswith("."), (what, text)
    assert len(text) < 1000, (what, text)


def use(header: Header, sound: Header) -> None:
    """Ask everything that localspec asks of a header."""
    for name in dir(Header):
        if isinstance(getattr(Header, name), property) or name in ("heads_kv", "n_params", "weight_bytes"):
            getattr(header, name)
    rollback(header)
    for report in (check_pair(sound, header), check_pair(header, sound)):
        assert report.ok == (not report.reasons)
    assert estimate(header, 4096, swa_full=False, n_rs_seq=3).total > 0


def mutations_of(data: bytes, seed: int) -> Iterator[Mutation]:
    rng = random.Random(seed)
    end = mutations.Walk(data).header_end
    yield from mutations.wrong_numbers(data, rng, 250)
    yield from mutations.flipped_bytes(data, rng, 80, end)
    yield from mutations.cut_off(data, rng, 40)
    yield from mutations.moved(data, rng, 40, end)
    yield from mutations.bad_weights(data, rng, 4)


def outcome(path: Path, what: str) -> str:
    """``header``, ``loader`` or ``loads``; any exception that is not localspec's own is the test's failure."""
    try:
        read_header(path)
    except GGUFError as error:
        require_sentence(error, what)
        return "header"
    try:
        probe(path, timeout_s=60)
    except ModelError as error:
        require_sentence(error, what)
        return "loader"
    return "loads"


def tiny_q8(path: Path) -> Path:
    return synthetic.tiny_llama(path, dtype="Q8_0")


@pytest.mark.parametrize(
    ("make", "seed"),
    [(synthetic.tiny_llama, 11), (synthetic.tiny_gemma3, 12), (tiny_q8, 13), (synthetic.tiny_lfm2, 14)],
)
def test_a_broken_file_is_a_clear_error_or_a_model_that_loads(
    tmp_path: Path, make: Callable[[Path], Path], seed: int
) -> None:
    sound = make(tmp_path / "sound.gguf")
    broken = {}
    for number, mutation in enumerate(mutations_of(sound.read_bytes(), seed)):
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(mutation.data)
        broken[path] = mutation.what
    with ThreadPoolExecutor(2) as pool:
        outcomes = dict(zip(broken, pool.map(outcome, broken, broken.values()), strict=True))
    counts = Counter(outcomes.values())
    assert sum(counts.values()) == 414
    assert counts["header"] > 300
    loading = [path for path, result in outcomes.items() if result == "loads"]
    for path in loading:
        use(read_header(path), read_header(sound))
    search = [entry for entry in sys.path if entry]
    script = f"import sys\nsys.path[:0] = {search!r}\n{LOAD_ALL}"
    done = subprocess.run([sys.executable, "-c", script, *map(str, loading)], capture_output=True, text=True)
    assert done.stdout == "survived\n", (done.stderr[-500:], [broken[path] for path in loading])


def test_a_real_header_with_flipped_bytes_is_a_clear_error_or_a_header(smollm2: Path) -> None:
    sound = read_header(smollm2)
    size = smollm2.stat().st_size
    with smollm2.open("rb") as file:
        data = file.read(sound.data_offset)
    rng = random.Random(13)
    # Most of the bytes are the vocabulary; the first 2 kB and the tensor list behind it decide most.
    tail = mutations.Walk(data).header_end - 20_000
    flips = [
        *mutations.flipped_bytes(data, rng, 60, 2_000),
        *mutations.flipped_bytes(data, rng, 30, len(data)),
        *(Mutation(m.what, data[:tail] + m.data) for m in mutations.flipped_bytes(data[tail:], rng, 60, 20_000)),
    ]
    counts: Counter[str] = Counter()
    for flip in flips:
        try:
            header = read_header_from(Bytes(flip.data, size), "flipped.gguf")
        except GGUFError as error:
            require_sentence(error, flip.what)
            counts["refused"] += 1
        else:
            use(header, sound)
            counts["read"] += 1
    assert min(counts["refused"], counts["read"]) > 5
