"""The service's certificate, which signs itself, and the token by which agents join."""

from __future__ import annotations

import datetime
import hashlib
import os
import secrets
import ssl
from pathlib import Path
from typing import Final

import msgspec

_FROM: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_UNTIL: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


class Credentials(msgspec.Struct, frozen=True):
    """Files of the certificate, its SHA-256 fingerprint, and the token of agents."""

    certificate: Path
    key: Path
    fingerprint: str
    token: str


def credentials(folder: Path) -> Credentials:
    """Return what is in the folder ``tls`` of a service, made at the first call.

    Raises OSError if the folder cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    certificate, key, token = folder / "cert.pem", folder / "key.pem", folder / "agent-token"
    if not certificate.exists() or not key.exists():
        _make(certificate, key)
    if not token.exists():
        _write(token, secrets.token_urlsafe(32).encode())
    der = ssl.PEM_cert_to_DER_cert(certificate.read_text())
    return Credentials(certificate, key, hashlib.sha256(der).hexdigest(), token.read_text().strip())


def server_context(found: Credentials) -> ssl.SSLContext:
    """Return how the daemon speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(found.certificate, found.key)
    return context


def _make(certificate: Path, key: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    secret = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "warren serve")])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(secret.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
        .sign(secret, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    _write(
        key,
        secret.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
    _write(certificate, signed.public_bytes(encoding))


def _write(path: Path, content: bytes) -> None:
    """Write a file that only this account may read."""
    beside = path.with_name(f".{path.name}.part")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content)
    os.rename(beside, path)
