"""What is written: lines, JSON and whole files on their way into the logs."""
