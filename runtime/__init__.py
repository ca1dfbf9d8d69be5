"""What mounts and brokers share in their event loop: threads, background tasks, notifications of changed logs."""
