"""Plays with GStreamer's library, controls playback once media have come, and plays to the end.

Arguments: DESCRIPTION FILE BYTES OPERATION NUMBER... The first elements of chains for tracks are named "video" and
"audio" in the description, or linked to "source" by it. If some are named, only these tracks are set up. Media have
come when FILE has more than so many bytes. Operations:
  play                 only plays
  pause SECONDS        pauses for so long, and resumes
  seek SECONDS         seeks to that time
  speed RATE           seeks to the beginning with a rate, to get every picture
  scale RATE           the same, to get random access points only
  rewind RATE SECONDS  the same from that time to the beginning

Seeks are sent to the element named "video", or to all sinks if there is none. Prints the seconds from the
operation to the end. Fails on an error before the end. Exits with 77 where the library is missing.
"""

import ctypes
import os
import sys
import time

TIME, SET, NONE = 3, 1, 0
FLUSH, ACCURATE, TRICKMODE, KEY_UNITS = 1 << 0, 1 << 1, 1 << 4, 1 << 7
NULL, PAUSED, PLAYING = 1, 3, 4
END, ERROR, PROGRESS = 1, 2, 1 << 25
SECOND = 1_000_000_000

try:
    gst = ctypes.CDLL("libgstreamer-1.0.so.0")
    gobject = ctypes.CDLL("libgobject-2.0.so.0")
except OSError:
    sys.exit(77)


class Message(ctypes.Structure):
    """The first fields of GstMessage: GstMiniObject, which is eight words, and the type."""

    _fields_ = [("object", ctypes.c_size_t * 8), ("type", ctypes.c_int)]


def call(name, result, *arguments):
    function = getattr(gst, name)
    function.restype = result
    return function(*arguments)


def element(name):
    """The element of a name in the pipeline, or None."""
    found = call("gst_bin_get_by_name", ctypes.c_void_p, pipeline, name)
    return ctypes.c_void_p(found) if found else None


def medium(caps):
    """The medium of RTP, such as "video"."""
    structure = ctypes.c_void_p(call("gst_caps_get_structure", ctypes.c_void_p, ctypes.c_void_p(caps), 0))
    return call("gst_structure_get_string", ctypes.c_char_p, structure, b"media")


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)
def select(source, number, caps, data):
    """Selects the tracks to set up. Of a track that is not linked, a seek sometimes ends the reading of all."""
    is_named = element(b"video") or element(b"audio")
    return 1 if not is_named or element(medium(caps)) else 0


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def link(source, pad, data):
    """Links a new pad of the source to the element that is named as its medium.

    Links of a description are made as pads appear, too, but of two that appear at once one is sometimes left out.
    """
    pad = ctypes.c_void_p(pad)
    if chain := element(medium(call("gst_pad_query_caps", ctypes.c_void_p, pad, None))):
        sink = ctypes.c_void_p(call("gst_element_get_static_pad", ctypes.c_void_p, chain, b"sink"))
        if not call("gst_pad_is_linked", ctypes.c_int, sink):
            call("gst_pad_link", ctypes.c_int, pad, sink)


def pop(bus, types, timeout):
    """The next message of these types, or None after so many nanoseconds."""
    message = call("gst_bus_timed_pop_filtered", ctypes.c_void_p, bus, ctypes.c_uint64(timeout), types)
    return ctypes.cast(message, ctypes.POINTER(Message)) if message else None


def progress(message):
    """The text of a message about progress."""
    kind, code, text = ctypes.c_int(), ctypes.c_char_p(), ctypes.c_char_p()
    places = (ctypes.byref(place) for place in (kind, code, text))
    call("gst_message_parse_progress", None, message, *places)
    return text.value


def error(message):
    """The text of an error."""
    text = ctypes.c_char_p()
    call("gst_message_parse_error", None, message, None, ctypes.byref(text))
    return text.value.decode()


def wait_for_request(bus, text):
    """Waits until `rtspsrc` says that a request was answered."""
    while message := pop(bus, END | ERROR | PROGRESS, 30 * SECOND):
        if message.contents.type == ERROR:
            sys.exit(f"an error before {text}: {error(message)}")
        if message.contents.type == END:
            sys.exit(f"it ended before {text}")
        if progress(message) == text:
            return
    sys.exit(f"nothing came of {text}")


def set_state(pipeline, state):
    call("gst_element_set_state", ctypes.c_int, pipeline, state)


def seek(pipeline, rate, flags, start_s, stop_s=None):
    sought = element(b"video") or pipeline
    start, stop = (ctypes.c_int64(-1 if time_s is None else int(time_s * SECOND)) for time_s in (start_s, stop_s))
    stop_type = NONE if stop_s is None else SET
    rate = ctypes.c_double(rate)
    if not call("gst_element_seek", ctypes.c_int, sought, rate, TIME, flags, SET, start, stop_type, stop):
        sys.exit("the seek was refused")


description, file, enough, operation = sys.argv[1:5]
numbers = [float(number) for number in sys.argv[5:]]
call("gst_init", None, None, None)
pipeline = ctypes.c_void_p(call("gst_parse_launch", ctypes.c_void_p, description.encode(), None))
bus = ctypes.c_void_p(call("gst_element_get_bus", ctypes.c_void_p, pipeline))
source = element(b"source")
gobject.g_signal_connect_data(source, b"select-stream", select, None, None, 0)
gobject.g_signal_connect_data(source, b"pad-added", link, None, None, 0)
set_state(pipeline, PLAYING)
if operation != "play":
    # On a busy machine media come before the answer to PLAY is read, and a request would cancel the reading.
    wait_for_request(bus, b"Sent PLAY request")
    while not (os.path.exists(file) and os.path.getsize(file) > int(enough)):
        if message := pop(bus, END | ERROR, 0):
            is_error = message.contents.type == ERROR
            sys.exit(f"an error before media came: {error(message)}" if is_error else "it ended before media came")
        time.sleep(0.01)
begin = time.monotonic()
if operation == "pause":
    set_state(pipeline, PAUSED)
    # Playing on would cancel a request that waits for its answer.
    wait_for_request(bus, b"Sent PAUSE request")
    time.sleep(numbers[0])
    set_state(pipeline, PLAYING)
elif operation == "seek":
    seek(pipeline, 1.0, FLUSH | ACCURATE, numbers[0])
elif operation == "speed":
    seek(pipeline, numbers[0], FLUSH | ACCURATE, 0)
elif operation == "scale":
    seek(pipeline, numbers[0], FLUSH | ACCURATE | TRICKMODE | KEY_UNITS, 0)
elif operation == "rewind":
    seek(pipeline, numbers[0], FLUSH | ACCURATE | TRICKMODE | KEY_UNITS, 0, numbers[1])
elif operation != "play":
    sys.exit(f"unknown operation {operation}")
message = pop(bus, END | ERROR, 30 * SECOND)
if not message:
    sys.exit("it did not end")
if message.contents.type == ERROR:
    sys.exit(f"an error before the end: {error(message)}")
print(time.monotonic() - begin)
set_state(pipeline, NULL)
