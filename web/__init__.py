"""A page to look at logs in a browser, and the JSON API behind it: the work of `offsetfs web`, read-only.

    browser ──► http_server ──► access ──► api ──► threads: answers, tree_views, record_views

One process, one event loop of trio. The loop does no blocking work; each question runs in one of a bounded number of
threads, and each answer is bounded.
"""
