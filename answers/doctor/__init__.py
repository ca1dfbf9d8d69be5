"""`offsetfs doctor`: why is this broker sick, and will it start?

`doctor` runs the checks over one survey of the directories. Each check is a function in one of these modules; it yields
a `Diagnosis` for each finding.

    survey         what one pass over the directories reads: names, sizes, checkpoints, the ends of indexes
    cluster        what the metadata log says
    identity       meta.properties, partitions in two directories, names over which a broker does not start
    topics         topic ids, leader epochs, and the metadata log against the directories
    leftovers      directories and files of deletions, moves and crashes
    shutdown       unclean shutdown with the time of a recovery; unreadable checkpoints
    segments       timestamps in the future, indexes that contradict the log, files of another user
    transactions   open and hanging transactions; producer state
    cleaning       compacted partitions that are not cleaned, and why
    commits        commits of groups outside of their partitions
    disks          when a disk is full, and what retention frees

No log is read as a whole; `offsetfs verify` does that.
"""
