#!/bin/sh
# What sessions that play notice of storms: set-ups by the thousand, half-open connections, and garbage to the RTCP port.
# Takes root and two minutes:
#
#   scripts/measure-storms.sh [RESULT.json]   (PROGRAM=target/release/wirepath SESSIONS=5000 RATES="1000 5000" HALF_OPEN=5000)
#
# 100 of SESSIONS are received and judged. Each storm comes in the middle of a run; lateness before, during and after it is
# compared. Half-open connections have sent half a request; the garbage is 100,000 datagrams a second of 0 to 64 bytes.
set -eu
program=$(realpath "${PROGRAM:-target/release/wirepath}") sessions=${SESSIONS:-5000} rates=${RATES:-1000 5000}
half_open=${HALF_OPEN:-5000} result=${1:-target/storms.json} bits=4600000
. "$(dirname "$0")/load-bed.sh"
serve "$bits" --rtp-ports 20000-20001 --max-sessions 9000 --max-sessions-per-address 1000 --max-connections 16000 \
  --max-connections-per-address 6000

run() { # name, further arguments
  name=$1
  shift
  until [ "$(sessions)" = 0 ]; do sleep 1; done
  ip netns exec "$clients" "$program" load "$rtsp/clip.ts" --sessions "$sessions" --ramp 1000 --settle 2s --for 24s \
    --sample "$(awk "BEGIN { print 10000 / $sessions }")%" --require none --from 10.78.0.0/18 --sample-from 10.79.0.0/24 \
    --json "$folder/$name.json" "$@" >"$folder/$name.text" || { cat "$folder/$name.text" >&2; exit 1; }
}
attack() { # name, script: it runs from 8 s after all play
  ip netns exec "$clients" python3 - "$rtsp" "$half_open" "$sessions" "$http" <"$folder/$1.py" >"$folder/$1.count" &
  load=$!
  run "$1"
  wait "$load"
  load=
}

cat >"$folder/wait.py" <<'P'
import random, socket, sys, time, urllib.request
host, port = sys.argv[1].removeprefix("rtsp://").split(":")
half_open, sessions, http = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
def playing():
    with urllib.request.urlopen(http + "/metrics") as metrics:
        return max((float(line.split()[1]) for line in metrics.read().decode().splitlines()
                    if line.startswith("wirepath_playback_playing ")), default=0)
until = time.monotonic() + 60
while playing() < sessions and time.monotonic() < until: time.sleep(0.2)
end = time.monotonic() + 10
P
cat "$folder/wait.py" - >"$folder/half-open.py" <<'P'
held = []
for number in range(half_open):
    one = socket.socket()
    try:
        one.bind((f"10.79.1.{number % 8 + 1}", 0)) # an address may have some only
        one.connect((host, int(port)))
        one.sendall(b"OPTIONS rtsp://a/clip.ts RT")
        held.append(one)
    except OSError: one.close()
while time.monotonic() < end: time.sleep(0.1)
print(len(held))
P
cat "$folder/wait.py" - >"$folder/garbage.py" <<'P'
to, sent = (host, 20001), 0
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
begun = time.monotonic()
while time.monotonic() < end:
    for _ in range(100):
        try: one.sendto(random.randbytes(random.randrange(65)), to)
        except OSError: pass
        sent += 1
    time.sleep(max(0, begun + sent / 100_000 - time.monotonic()))
print(sent)
P

for rate in $rates; do run "storm-$rate" --storm "$rate" --storm-for 8s; done
attack half-open
attack garbage
run quiet

python3 - "$folder" "$result" "$sessions" "$rates" <<'P'
import json, sys
folder, result, sessions, rates = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4].split()
names = ["quiet", *(f"storm-{rate}" for rate in rates), "half-open", "garbage"]
summary = {}
for name in names:
    run = json.load(open(f"{folder}/{name}.json"))
    keys = ["sessions", "failures", "setup_ms", "first_packet_ms", "media", "storm", "client"]
    summary[name] = {key: run.get(key) for key in keys}
    if name in ("half-open", "garbage"): summary[name]["attack"] = int(open(f"{folder}/{name}.count").read())
    media, judged = run["media"], run["sessions"]
    late, storm = media["lateness_ms"], run.get("storm")
    print(f"{name:11} {judged['timely']} of {judged['judged']} timely, {media['lost']} lost, lateness p99 {late['p99']:.1f} max "
          f"{late['max']:.1f} ms" + (f"; {storm}" if storm else f"; {summary[name].get('attack', '')}"))
with open(result, "w") as file: file.write(json.dumps({"sessions": sessions, **summary}, indent=2) + "\n")
P
