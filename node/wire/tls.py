"""TLS from Kafka's ``ssl.*`` settings, with keys and certificates in PEM.

Source: KIP-651 (PEM in key and trust stores), Kafka's SslConfigs for names and defaults.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PEM: Final = "PEM"
_JAVA_STORES: Final = ("JKS", "PKCS12")
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_STORE_BYTES_MAX: Final = 1024 * 1024  # a file that is no PEM store is not read to its end
_SETTINGS: Final = frozenset(
    {
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.key.password",
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.certificates",
        "ssl.client.auth",
        "ssl.endpoint.identification.algorithm",
        "ssl.enabled.protocols",
        "ssl.protocol",  # the highest that is enabled is used anyway
    }
)


class TlsConfigError(ValueError):
    """Raised when the ``ssl.*`` settings make no TLS; says what, where and what to do."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The keys and certificates of one side, as PEM texts.

    ``identity`` is the private key and the certificate chain, None = has none. ``trusted`` are
    the certificates that others may be signed with, None = those that the host trusts.
    """

    identity: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    trusted: str | None = field(default=None, repr=False)
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    check_host_name: bool = True
    protocols: tuple[ssl.TLSVersion, ...] = tuple(_PROTOCOLS.values())
    where: str = "the configuration"

    @classmethod
    def of(cls, settings: Mapping[str, str], where: str = "the configuration") -> TlsConfig:
        """The settings by their Kafka names; ``where`` says in errors whose they are.

        Raises:
            TlsConfigError: One is unknown, has no such value, or cannot be read.
        """
        given = {key: value.strip() for key, value in settings.items() if value.strip()}
        for store in ("keystore", "truststore"):
            _check_type(given, f"ssl.{store}.type", where)
        for key in sorted(given.keys() - _SETTINGS):
            advice = "a PEM store has none" if key.endswith("store.password") else "not supported"
            raise TlsConfigError(f"{where}: {key}: {advice}: remove it")
        algorithm = settings.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
        if algorithm not in ("https", ""):
            raise TlsConfigError(
                f"{where}: ssl.endpoint.identification.algorithm={algorithm}: "
                "want https, or nothing for no check of host names"
            )
        return cls(
            identity=_identity(given, where),
            key_password=given.get("ssl.key.password"),
            trusted=_store(
                given, "ssl.truststore.location", ("ssl.truststore.certificates",), where
            ),
            client_auth=_one_of(_CLIENT_AUTH, given.get("ssl.client.auth", "none"), where),
            check_host_name=algorithm == "https",
            protocols=_protocols(given, where),
            where=where,
        )

    def server_context(self) -> ssl.SSLContext:
        """Make the TLS context of a listener.

        Raises:
            TlsConfigError: There is no certificate to show, or it or the key is unusable.
        """
        if self.identity is None:
            raise TlsConfigError(
                f"{self.where}: a TLS listener needs a certificate: set ssl.keystore.type=PEM "
                "and ssl.keystore.location, or ssl.keystore.certificate.chain and ssl.keystore.key"
            )
        context = self._context(ssl.PROTOCOL_TLS_SERVER, ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = self.client_auth
        return context

    def client_context(self) -> ssl.SSLContext:
        """Make the TLS context of connections to others, which must show a trusted certificate.

        Raises:
            TlsConfigError: A certificate or the key is unusable.
        """
        context = self._context(ssl.PROTOCOL_TLS_CLIENT, ssl.Purpose.SERVER_AUTH)
        context.check_hostname = self.check_host_name
        return context

    def _context(self, protocol: int, purpose: ssl.Purpose) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = min(self.protocols)
        context.maximum_version = max(self.protocols)
        # As in Java, a trusted certificate need not be that of a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if self.trusted is None:
            context.load_default_certs(purpose)
        else:
            try:
                context.load_verify_locations(cadata=self.trusted)
            except (ssl.SSLError, ValueError) as error:
                raise TlsConfigError(
                    f"{self.where}: ssl.truststore: {error}: want certificates in PEM"
                ) from error
        if self.identity is not None:
            self._load_identity(context, self.identity)
        return context

    def _load_identity(self, context: ssl.SSLContext, identity: str) -> None:
        password = self.key_password or ""  # without any, OpenSSL would ask at the terminal
        # The ssl module takes files only; this one is ours alone and gone at once.
        with tempfile.NamedTemporaryFile("w", encoding="ascii", suffix=".pem") as file:
            file.write(identity)
            file.flush()
            try:
                context.load_cert_chain(file.name, password=lambda: password)
            except (ssl.SSLError, OSError) as error:
                raise TlsConfigError(
                    f"{self.where}: ssl.keystore: {error.strerror or error}: want a private key "
                    "and the chain of its certificate in PEM, and ssl.key.password if the key is "
                    "encrypted"
                ) from error


def explain(error: BaseException) -> str:
    """Tell what went wrong in TLS, in the words of OpenSSL without its line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return str(error.reason).replace("_", " ").lower()
    return str(error) or type(error).__name__


def _check_type(given: Mapping[str, str], key: str, where: str) -> None:
    store = key.removesuffix(".type")
    if not any(name.startswith(f"{store}.") for name in given):
        return
    kind = given.get(key, "JKS")  # Kafka's default
    if kind.upper() == _PEM:
        return
    if kind.upper() in _JAVA_STORES:
        raise TlsConfigError(
            f"{where}: {key}={kind}: Java's stores cannot be read here: convert it to PEM "
            f"(keytool -importkeystore to PKCS12, then openssl pkcs12) and set {key}=PEM"
        )
    raise TlsConfigError(f"{where}: {key}={kind}: want PEM")


def _identity(given: Mapping[str, str], where: str) -> str | None:
    inline = ("ssl.keystore.key", "ssl.keystore.certificate.chain")
    identity = _store(given, "ssl.keystore.location", inline, where)
    if identity is not None and not identity.isascii():
        raise TlsConfigError(f"{where}: ssl.keystore: it is not in PEM, which is ASCII")
    return identity


def _store(
    given: Mapping[str, str], location: str, inline: tuple[str, ...], where: str
) -> str | None:
    """The PEM text of a store: from its file, or from all of the settings that hold it."""
    there = [key for key in inline if key in given]
    if location in given:
        if there:
            raise TlsConfigError(f"{where}: {location} and {there[0]}: want only one of them")
        return _read(Path(given[location]), f"{where}: {location}")
    if not there:
        return None
    for key in inline:
        if key not in given:
            raise TlsConfigError(f"{where}: {there[0]} without {key}: set both")
    # In a properties file a text of many lines is often written with \\n between them.
    return "\n".join(given[key].replace("\\n", "\n") for key in inline) + "\n"


def _read(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_STORE_BYTES_MAX + 1)
    except OSError as error:
        raise TlsConfigError(f"{what}={path}: {error.strerror}: give a readable file") from error
    if len(data) > _STORE_BYTES_MAX or b"-----BEGIN " not in data:
        raise TlsConfigError(f"{what}={path}: it is not in PEM: convert it with openssl")
    return data.decode("ascii", errors="replace")


def _protocols(given: Mapping[str, str], where: str) -> tuple[ssl.TLSVersion, ...]:
    names = given.get("ssl.enabled.protocols", ",".join(_PROTOCOLS)).split(",")
    unknown = [name for name in map(str.strip, names) if name not in _PROTOCOLS]
    if unknown:
        raise TlsConfigError(
            f"{where}: ssl.enabled.protocols: {unknown[0]!r} is not one of {', '.join(_PROTOCOLS)}"
        )
    return tuple(sorted(_PROTOCOLS[name.strip()] for name in names))


def _one_of(values: Mapping[str, ssl.VerifyMode], value: str, where: str) -> ssl.VerifyMode:
    try:
        return values[value.lower()]
    except KeyError:
        raise TlsConfigError(
            f"{where}: ssl.client.auth={value}: want one of {', '.join(values)}"
        ) from None
