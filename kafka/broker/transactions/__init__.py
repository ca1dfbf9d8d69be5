"""Transactions: the coordinator, its log, the markers of commit and abort."""
