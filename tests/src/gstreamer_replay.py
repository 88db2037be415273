"""Plays an archive with GStreamer's library as a client of ONVIF replay, to the end.

Argument: DESCRIPTION of a pipeline with an rtspsrc named "source". Each of its requests gets the header field
Require: onvif-replay, which rtspsrc leaves to applications. Exits with 77 where the library or the pipeline's elements
are missing, with 1 after an error or 30 seconds.
"""

import ctypes
import sys

NULL, PLAYING = 1, 4
END, ERROR = 1, 2
SECOND = 1_000_000_000

try:
    gst = ctypes.CDLL("libgstreamer-1.0.so.0")
    rtsp = ctypes.CDLL("libgstrtsp-1.0.so.0")
    gobject = ctypes.CDLL("libgobject-2.0.so.0")
except OSError:
    sys.exit(77)


def call(name, result, *arguments):
    function = getattr(gst, name)
    function.restype = result
    return function(*arguments)


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def require_replay(source, message, data):
    rtsp.gst_rtsp_message_add_header_by_name(ctypes.c_void_p(message), b"Require", b"onvif-replay")
    return 1


call("gst_init", None, None, None)
if not call("gst_element_factory_find", ctypes.c_void_p, b"rtponvifparse"):
    sys.exit(77)
pipeline = ctypes.c_void_p(call("gst_parse_launch", ctypes.c_void_p, sys.argv[1].encode(), None))
source = ctypes.c_void_p(call("gst_bin_get_by_name", ctypes.c_void_p, pipeline, b"source"))
gobject.g_signal_connect_data.restype = ctypes.c_ulong
gobject.g_signal_connect_data(source, b"before-send", require_replay, None, None, 0)
bus = ctypes.c_void_p(call("gst_element_get_bus", ctypes.c_void_p, pipeline))
call("gst_element_set_state", ctypes.c_int, pipeline, PLAYING)
limit = ctypes.c_uint64(30 * SECOND)
message = call("gst_bus_timed_pop_filtered", ctypes.c_void_p, bus, limit, END | ERROR)
# The type is the first field after the base, a GstMiniObject.
ended = message and ctypes.cast(message + 64, ctypes.POINTER(ctypes.c_int))[0] == END
call("gst_element_set_state", ctypes.c_int, pipeline, NULL)
sys.exit(0 if ended else "it did not play to the end")
