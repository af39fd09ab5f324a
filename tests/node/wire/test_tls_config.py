"""TLS from Kafka's settings: what is read, and what each mistake is told."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from node.wire.tls import TlsConfig, TlsConfigError, explain
from tests.support.wire.certificates import authority

CA = authority("krucible test CA")
NODE = CA.issue("node", "localhost")
STORE = NODE.settings()


def test_no_settings_are_a_client_that_trusts_what_the_host_trusts() -> None:
    config = TlsConfig.of({})
    context = config.client_context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        ("none", ssl.CERT_NONE),
        ("requested", ssl.CERT_OPTIONAL),
        ("required", ssl.CERT_REQUIRED),
        (None, ssl.CERT_NONE),
    ],
)
def test_client_auth(value: str | None, mode: ssl.VerifyMode) -> None:
    auth = {} if value is None else {"ssl.client.auth": value}
    assert TlsConfig.of(STORE | CA.trusted() | auth).server_context().verify_mode is mode


def test_stores_may_be_files(tmp_path: Path) -> None:
    store, trust = tmp_path / "node.pem", tmp_path / "ca.pem"
    store.write_text(NODE.certificate_pem + NODE.key_pem())
    trust.write_text(CA.certificate_pem)
    config = TlsConfig.of(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "pem",
            "ssl.truststore.location": str(trust),
        }
    )
    config.server_context()
    assert len(config.client_context().get_ca_certs()) == 1


def test_a_text_of_many_lines_may_be_written_with_backslashes() -> None:
    one_line = {key: value.replace("\n", "\\n") for key, value in STORE.items()}
    TlsConfig.of(one_line).server_context()


def test_a_key_may_be_encrypted() -> None:
    locked = STORE | {"ssl.keystore.key": NODE.key_pem("secret")}
    TlsConfig.of(locked | {"ssl.key.password": "secret"}).server_context()
    for password in ({}, {"ssl.key.password": "wrong"}):
        with pytest.raises(TlsConfigError, match=r"ssl\.keystore: .*ssl\.key\.password"):
            TlsConfig.of(locked | password).server_context()


def test_secrets_are_not_shown() -> None:
    config = TlsConfig.of(STORE | {"ssl.key.password": "hunter2"})
    assert "PRIVATE KEY" not in repr(config)
    assert "hunter2" not in repr(config)


WRONG = [
    ({"ssl.keystore.location": "/k.jks"}, r"ssl\.keystore\.type=JKS: .*convert it to PEM"),
    (
        {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": "/t.p12"},
        r"ssl\.truststore\.type=PKCS12: .*openssl pkcs12",
    ),
    ({"ssl.keystore.type": "BCFKS"}, r"ssl\.keystore\.type=BCFKS: want PEM"),
    (
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/no/such"},
        r"ssl\.keystore\.location=/no/such: No such file.*: give a readable file",
    ),
    (
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/dev/zero"},
        r"/dev/zero: it is not in PEM",
    ),
    (STORE | {"ssl.keystore.location": "/k"}, "want only one of them"),
    (
        {"ssl.keystore.type": "PEM", "ssl.keystore.key": "x"},
        r"ssl\.keystore\.key without ssl\.keystore\.certificate\.chain: set both",
    ),
    (STORE | {"ssl.keystore.password": "x"}, "a PEM store has none: remove it"),
    ({"ssl.cipher.suites": "x"}, r"ssl\.cipher\.suites: not supported: remove it"),
    ({"ssl.client.auth": "maybe"}, "want one of none, requested, required"),
    ({"ssl.endpoint.identification.algorithm": "ldaps"}, "want https, or nothing"),
    ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "'TLSv1.1' is not one of TLSv1.2, TLSv1.3"),
    (STORE | {"ssl.keystore.key": "\u00e4"}, "ASCII"),
]


@pytest.mark.parametrize(("settings", "message"), WRONG)
def test_a_mistake_is_told_with_its_place(settings: dict[str, str], message: str) -> None:
    with pytest.raises(TlsConfigError, match=message) as error:
        TlsConfig.of(settings, "listener SSL")
    assert str(error.value).startswith("listener SSL: ")


UNUSABLE = [
    ({}, "a TLS listener needs a certificate: set ssl.keystore.type=PEM"),
    (STORE | {"ssl.keystore.key": CA.key_pem()}, "want a private key"),
    (STORE | {"ssl.keystore.certificate.chain": "no"}, "want a private key"),
    (STORE | CA.trusted() | {"ssl.truststore.certificates": "no"}, "want certificates in PEM"),
]


@pytest.mark.parametrize(("settings", "message"), UNUSABLE)
def test_a_store_that_is_of_no_use(settings: dict[str, str], message: str) -> None:
    with pytest.raises(TlsConfigError, match=message) as error:
        TlsConfig.of(settings, "listener SSL").server_context()
    assert str(error.value).startswith("listener SSL: ")


def test_errors_without_words_are_named() -> None:
    assert explain(ConnectionResetError()) == "ConnectionResetError"
    assert explain(ConnectionResetError(104, "reset")) == "[Errno 104] reset"
