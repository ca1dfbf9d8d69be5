"""Modules that several rooms above the engine share.

For an event loop: sockets, TLS, threads, background tasks, and notifications of changed logs. Without one, for archives
and commands too: times, sizes and text for people, a cache, pauses between attempts.
"""
