#!/usr/bin/env python3
"""Takes the pictures of the status page that the documents show, from a server that plays, with Chromium:

    scripts/page-pictures.py [FOLDER]        (docs/pictures without; PROGRAM=target/release/wirepath)

Look at them before they are committed.
"""
import base64, json, os, re, shutil, subprocess, sys, tempfile, time, urllib.request

OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.environ.get("PROGRAM", f"{OWN}/target/release/wirepath")
FOLDER = sys.argv[1] if len(sys.argv) > 1 else f"{OWN}/docs/pictures"
SESSIONS, SHOWN_S, MOST_BYTES = 8, 45, 200 << 10
# Name, width, height, phone, dark.
PICTURES = [
    ("status-light", 1280, 1120, False, False),
    ("status-dark", 1280, 1120, False, True),
    ("status-phone", 390, 844, True, False),
]


class Browser:
    """Chromium without a window, by the DevTools protocol over a pipe: messages in JSON, a NUL behind each."""

    def __init__(self, home):
        (theirs_in, self.to), (self.back, theirs_out) = os.pipe(), os.pipe()
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                   "--hide-scrollbars", "--disable-background-networking", f"--user-data-dir={home}/browser",
                   "--remote-debugging-pipe", "about:blank"]
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self.process = subprocess.Popen(["sh", "-c", shell, "sh", *command], pass_fds=(theirs_in, theirs_out),
                                        stderr=subprocess.DEVNULL)
        os.close(theirs_in), os.close(theirs_out)
        self.session, self.number, self.rest = None, 0, b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                came = os.read(self.back, 1 << 20)
                if not came:
                    sys.exit("Chromium ended")
                self.rest += came
            text, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(text)
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait_for(self, expression, seconds):
        end = time.monotonic() + seconds
        while self.evaluate(expression) is not True:
            if time.monotonic() > end:
                sys.exit(f"never true: {expression}")
            time.sleep(0.2)


def clip(file, *output):
    source = ["-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25:duration=120", "-f", "lavfi", "-i",
              "sine=frequency=440:sample_rate=48000:duration=120"]
    codecs = "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 -b:v 1500k -maxrate 1500k -bufsize 750k -c:a aac"
    subprocess.run(["ffmpeg", "-nostdin", "-v", "error", *source, *codecs.split(), *output, file], check=True)


def main():
    home = tempfile.mkdtemp()
    running = []
    try:
        take(home, running)
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()
        shutil.rmtree(home, ignore_errors=True)


def take(home, running):
    names = ["films/harbour.ts", "films/mountains.ts", "films/night-train.ts", "news.ts"]
    os.makedirs(f"{home}/media/films")
    clip(f"{home}/media/trailer.mp4", "-t", "20", "-movflags", "+faststart")
    clip(f"{home}/media/{names[0]}", "-muxrate", "4000000", "-f", "mpegts")
    for name in names[1:]:
        shutil.copy(f"{home}/media/{names[0]}", f"{home}/media/{name}")
    log = open(f"{home}/log", "w")
    server = subprocess.Popen([PROGRAM, "serve", f"{home}/media", "--cache", f"{home}/cache", "--rtsp", "127.0.0.1:0", "--http",
                               "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log, text=True)
    running.append(server)
    rtsp, http = re.fullmatch(r"ready rtsp=(\S+) http=(\S+)\n", server.stdout.readline()).groups()
    load = [PROGRAM, "load", *(rtsp + name for name in names), "--sessions", str(SESSIONS), "--ramp", "1", "--for", "4m"]
    load += ["--mix", "zipf:1.1", "--from", "127.1.0.0/28", "--seek-every", "40s", "--require", "none"]
    running.append(subprocess.Popen(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    browser = Browser(home)
    running.append(browser.process)
    browser.call("Page.navigate", url=http + "status")
    uptime = "Number(document.documentElement?.dataset.uptimeMs)"
    rows = f"document.querySelectorAll('#sessions tbody tr').length >= {SESSIONS}"
    browser.wait_for(f"{uptime} > {SHOWN_S * 1000} && {rows}", 200)
    os.makedirs(FOLDER, exist_ok=True)
    for name, width, height, is_phone, is_dark in PICTURES:
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, mobile=is_phone, deviceScaleFactor=1)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
        browser.call("Emulation.setEmulatedMedia", features=scheme)
        # Plots are drawn anew, for the new width, when the next status comes.
        now = browser.evaluate(uptime)
        browser.wait_for(f"{uptime} > {now}", 10)
        picture = base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"])
        if len(picture) > MOST_BYTES:
            sys.exit(f"{name} has {len(picture)} bytes: make it smaller than {MOST_BYTES}")
        with open(f"{FOLDER}/{name}.png", "wb") as file:
            file.write(picture)
        print(f"{FOLDER}/{name}.png: {len(picture)} bytes")


main()
