"""TLS: settings, certificates, the context of a listener."""
