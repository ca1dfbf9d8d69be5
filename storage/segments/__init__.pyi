from offsetfs.storage.names import parse_segment_name as parse_segment_name
from offsetfs.storage.names import segment_name as segment_name
from offsetfs.storage.segments.log_prefix import LogPrefix as LogPrefix
from offsetfs.storage.segments.log_prefix import measure_prefix as measure_prefix
from offsetfs.storage.segments.segment import Segment as Segment
from offsetfs.storage.segments.segment_map import Segments as Segments
