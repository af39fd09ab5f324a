"""Certificates for tests of TLS, made on the spot."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode()),
        ).decode()

    def settings(self) -> dict[str, str]:
        """As a key store."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": self.key_pem(),
            "ssl.keystore.certificate.chain": self.certificate_pem,
        }

    def trusted(self) -> dict[str, str]:
        """As a trust store."""
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.certificate_pem,
        }

    def issue(self, name: str, *hosts: str, expired: bool = False) -> Identity:
        """A certificate signed by this one, for those host names and addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives: list[x509.GeneralName] = [_general_name(host) for host in hosts]
        builder = _builder(name, key, expired=expired).issuer_name(self.certificate.subject)
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), False)
        return Identity(key, builder.sign(self.key, hashes.SHA256()))


def authority(name: str) -> Identity:
    """A certificate that signs itself and others."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(name, key).issuer_name(_name(name))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    return Identity(key, builder.sign(key, hashes.SHA256()))


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, *, expired: bool = False
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now - _DAY if expired else now + 30 * _DAY
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * _DAY)
        .not_valid_after(end)
    )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
