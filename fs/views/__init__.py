"""What is read: records, growing views, ranges, times, keys, segments, followers."""
