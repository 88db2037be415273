"""Plays with GStreamer's library, controls playback once media have come, and plays to the end.

Arguments: DESCRIPTION FILE OPERATION NUMBER. FILE tells when media have come. Operations, none of which
gst-launch-1.0 has:
  pause SECONDS   pauses for so long, and resumes
  seek SECONDS    seeks to that time
  speed RATE      seeks to the beginning with a rate, to get every picture
  scale RATE      the same, to get random access points only

Seeks are sent to the element named "video", or to all sinks if there is none. Prints the seconds from the
operation to the end. Exits with 77 where the library is missing.
"""

import ctypes
import os
import sys
import time

TIME, SET, NONE = 3, 1, 0
FLUSH, ACCURATE, TRICKMODE, KEY_UNITS = 1 << 0, 1 << 1, 1 << 4, 1 << 7
NULL, PAUSED, PLAYING = 1, 3, 4
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


def set_state(pipeline, state):
    call("gst_element_set_state", ctypes.c_int, pipeline, state)


def seek(pipeline, rate, flags, seconds):
    sought = call("gst_bin_get_by_name", ctypes.c_void_p, pipeline, b"video")
    sought = ctypes.c_void_p(sought) if sought else pipeline
    start, stop = ctypes.c_int64(int(seconds * SECOND)), ctypes.c_int64(-1)
    rate = ctypes.c_double(rate)
    if not call("gst_element_seek", ctypes.c_int, sought, rate, TIME, flags, SET, start, NONE, stop):
        sys.exit("the seek was refused")


description, file, operation, number = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
call("gst_init", None, None, None)
pipeline = ctypes.c_void_p(call("gst_parse_launch", ctypes.c_void_p, description.encode(), None))
bus = ctypes.c_void_p(call("gst_element_get_bus", ctypes.c_void_p, pipeline))
set_state(pipeline, PLAYING)
while not (os.path.exists(file) and os.path.getsize(file) > 100_000):
    if pop(bus, END | ERROR, 0):
        sys.exit("it ended before media came")
    time.sleep(0.01)
begin = time.monotonic()
if operation == "pause":
    set_state(pipeline, PAUSED)
    time.sleep(number)
    set_state(pipeline, PLAYING)
elif operation == "seek":
    seek(pipeline, 1.0, FLUSH | ACCURATE, number)
elif operation == "speed":
    seek(pipeline, number, FLUSH | ACCURATE, 0)
elif operation == "scale":
    seek(pipeline, number, FLUSH | ACCURATE | TRICKMODE | KEY_UNITS, 0)
else:
    sys.exit(f"unknown operation {operation}")
if pop(bus, ERROR, 0):
    sys.exit("the operation failed")
pop(bus, END | ERROR, 30 * SECOND)
print(time.monotonic() - begin)
set_state(pipeline, NULL)
