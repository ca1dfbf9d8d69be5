"""The names of security settings that brokers and clients have in common."""

from __future__ import annotations

KEYSTORE_TYPE, KEYSTORE, KEY_FILE = "ssl.keystore.type", "ssl.keystore.location", "ssl.key.location"
CHAIN, KEY, KEY_PASSWORD = "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.key.password"
TRUSTSTORE_TYPE, TRUSTSTORE, TRUSTED = "ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.certificates"
PROTOCOLS, SUITES = "ssl.enabled.protocols", "ssl.cipher.suites"
JAAS_CONFIG = "sasl.jaas.config"

TLS_SECRETS = frozenset((CHAIN, KEY, KEY_PASSWORD, TRUSTED))
"""The secret settings. As in Kafka, certificates that are given in settings are among them."""
