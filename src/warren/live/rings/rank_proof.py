"""Proofs by which the ranks of a ring know each other; gloo itself accepts any connection.

gloo makes one TCP connection between any two ranks. Each listens and publishes its address in the
meeting file; of two, one connects to the other and sends a small number that is easy to guess.
Before any tensor passes, each rank sends each other a proof over that connection: an HMAC of the
two ranks' names in order, by a secret that only the gang has. Until all proofs are right nothing of
a job is sent.

A proof each way is enough. Addresses come from the run's private folder, so a connection to them
reaches the true listener, and an outsider can only take the place of a rank that was to connect.
The proof that it gets there has the names the other way round, and is wrong when sent back; the
proof it would need goes over a connection that it does not have. Each gang draws a secret of its
own, so that no proof counts twice. A rank that ends leaves its port to others, but a process that
listens there lacks the secret as well. An established connection is not taken over without rights
over the network, as root has.

Not claimed: secrecy, since nothing is encrypted, and that a ring forms whatever others do. An
outsider that takes a place, or sends bytes that gloo does not understand, breaks the gang.
"""

from __future__ import annotations

import hmac
import secrets
from typing import Final

PROOF_BYTES: Final = 32
"""The size of a proof: an HMAC by SHA-256."""
_SECRET_BYTES: Final = 32


def new_secret() -> bytes:
    """Draw the secret of the ranks of one gang."""
    return secrets.token_bytes(_SECRET_BYTES)


class RankProofs:
    """The proofs of one rank: those it shows to the others, and the check of theirs.

    Parameters
    ----------
    secret
        The 32 bytes that the gang has been given.
    ring
        The name of the ring, in the same words on every rank.
    rank
        Which rank this is.

    Raises
    ------
    ValueError
        The secret is too short: it could be guessed.
    """

    def __init__(self, secret: bytes, ring: str, rank: int) -> None:
        if len(secret) != _SECRET_BYTES:
            raise ValueError(f"the secret of a ring has {_SECRET_BYTES} bytes, not {len(secret)}")
        self._secret = secret
        self._ring = ring
        self._rank = rank

    def to(self, other: int) -> bytes:
        """Return the proof for another rank, and for no third."""
        return self._from_to(self._rank, other)

    def right(self, other: int, shown: bytes) -> bool:
        """Tell whether this is the proof that the other rank owes to this one."""
        # In constant time, so that how long it takes says nothing about how much was right.
        return hmac.compare_digest(shown, self._from_to(other, self._rank))

    def _from_to(self, sender: int, receiver: int) -> bytes:
        """Return the proof of one rank for another: HMAC-SHA256 of both names, by the secret."""
        # Both names, in this order: a proof that is sent back where it came from is wrong.
        words = f"{self._ring}: rank {sender} to rank {receiver}"
        return hmac.digest(self._secret, words.encode(), "sha256")
