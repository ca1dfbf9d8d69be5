"""Authorization: ACLs, the check of each request, and the administration of ACLs."""
