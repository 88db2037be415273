"""Plays with GStreamer's library, seeks once media have come, and plays to the end: DESCRIPTION FILE SECONDS.

gst-launch-1.0 cannot seek. The seek is sent to the element named "video", or to all sinks if there is none. Exits with 77 where the library is missing.
"""

import ctypes
import os
import sys
import time

PLAYING, TIME, FLUSH, ACCURATE, NULL = 4, 3, 1, 2, 1
END, ERROR = 1, 2
SECOND = 1_000_000_000

try:
    gst = ctypes.CDLL("libgstreamer-1.0.so.0")
except OSError:
    sys.exit(77)


def call(name, result, *arguments):
    function = getattr(gst, name)
    function.restype = result
    return function(*arguments)


def pop(bus, types, timeout):
    return call("gst_bus_timed_pop_filtered", ctypes.c_void_p, bus, ctypes.c_uint64(timeout), types)


description, file, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
call("gst_init", None, None, None)
pipeline = ctypes.c_void_p(call("gst_parse_launch", ctypes.c_void_p, description.encode(), None))
bus = ctypes.c_void_p(call("gst_element_get_bus", ctypes.c_void_p, pipeline))
call("gst_element_set_state", ctypes.c_int, pipeline, PLAYING)
while not (os.path.exists(file) and os.path.getsize(file) > 100_000):
    if pop(bus, END | ERROR, 0):
        sys.exit("it ended before media came")
    time.sleep(0.01)
position = ctypes.c_int64(int(seconds * SECOND))
sought = call("gst_bin_get_by_name", ctypes.c_void_p, pipeline, b"video")
sought = ctypes.c_void_p(sought) if sought else pipeline
if not call("gst_element_seek_simple", ctypes.c_int, sought, TIME, FLUSH | ACCURATE, position):
    sys.exit("the seek was refused")
if pop(bus, ERROR, 0):
    sys.exit("the seek failed")
pop(bus, END | ERROR, 30 * SECOND)
call("gst_element_set_state", ctypes.c_int, pipeline, NULL)
