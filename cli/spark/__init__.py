"""Parts of all jobs of `offsetfs spark`: session, arguments, progress, plots."""
