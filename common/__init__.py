"""What mounts, brokers and clients of clusters share in their event loop.

That is sockets, TLS, threads, background tasks, and notifications of changed logs.
"""
