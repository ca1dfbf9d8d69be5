"""What is known of the cluster that a log directory belongs to, from its metadata log."""
