"""Fuzz one parser without atheris: mutate.py TARGET SECONDS [SEED]. Ends with 0 when nothing was found.

For interpreters that libFuzzer does not go with, such as one under AddressSanitizer (`scripts/soak sanitize`). Inputs
are the seeds and kept findings of the target, each as it is and then with a few changes that SEED decides. There is no
coverage to follow. The last line names the number of inputs. A crash leaves the input in `TARGET.input` of the working
directory.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

from targets import TARGETS, seeds

_EDGES = [0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]
_NUMBERS = [0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 61, 1000]


def changed(data: bytes, others: list[bytes], numbers: random.Random) -> bytes:
    """Return the input after one to eight changes: bytes, numbers of four and eight bytes, cuts, copies, splices."""
    made = bytearray(data)
    for _ in range(numbers.randrange(1, 9)):
        at = numbers.randrange(len(made) + 1)
        match numbers.randrange(7):
            case 0 | 1:
                made[at : at + 1] = bytes([numbers.choice(_EDGES)])
            case 2:
                made[at : at + 1] = bytes([numbers.randrange(256)])
            case 3:
                size = numbers.choice([4, 8])
                number = numbers.choice(_NUMBERS) % (1 << 8 * size)
                made[at : at + size] = number.to_bytes(size, "big")
            case 4:
                del made[at : at + numbers.randrange(1, 40)]
            case 5:
                made[at:at] = made[at : at + numbers.randrange(1, 200)]
            case 6:
                other = numbers.choice(others)
                made[at:] = other[numbers.randrange(len(other) + 1) :]
    return bytes(made[: 1 << 16])


def main() -> None:
    name, seconds = sys.argv[1], float(sys.argv[2])
    numbers = random.Random(sys.argv[3] if len(sys.argv) > 3 else time.time_ns())
    target, kept = TARGETS[name], Path(name + ".input")
    corpus = (Path(__file__).parent / "corpus" / name).glob("*")
    begun = [*seeds(name), *(path.read_bytes() for path in corpus)] or [b""]
    count, end = 0, time.monotonic() + seconds
    while count < len(begun) or time.monotonic() < end:
        data = begun[count] if count < len(begun) else changed(numbers.choice(begun), begun, numbers)
        kept.write_bytes(data)
        target(data)
        count += 1
    kept.unlink()
    print(f"{name}: {count} inputs")


if __name__ == "__main__":
    main()
