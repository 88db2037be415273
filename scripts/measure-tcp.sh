#!/bin/sh
# Cost of sessions over TCP by `interleaved` and, from hot memory, by `wire_uring`; and lateness of sessions over UDP beside
# HTTP downloads. Takes root and three minutes:
#
#   scripts/measure-tcp.sh [RESULT.json]   (PROGRAM=target/release/wirepath SESSIONS=2000 ROUNDS=3 BITS=4600000)
#
# Rounds are interleaved. Besides the time of the server's process, the busy time of its processor counts, with
# acknowledgements and interrupts. Over veth the receiver's processor copies what is lent; a network card would read it.
set -eu
program=$(realpath "${PROGRAM:-target/release/wirepath}") sessions=${SESSIONS:-2000} rounds=${ROUNDS:-3}
result=${1:-target/tcp.json} bits=${BITS:-4600000}
. "$(dirname "$0")/load-bed.sh"
pack "$bits"

# Nanoseconds of the server's threads, and ticks of its processor that were not idle.
spent() {
  cat /proc/"$server"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f ", sum }'
  awk -v cpu="cpu$last" '$1 == cpu { print $2 + $3 + $4 + $7 + $8 }' /proc/stat
}
run() { # name, command that runs meanwhile, arguments of the load client
  name=$1 beside=$2
  shift 2
  until [ "$(sessions)" = 0 ]; do sleep 1; done
  ip netns exec "$clients" "$program" load "$rtsp/clip.ts" --sessions "$sessions" --ramp 1000 --settle 2s --for 14s \
    --sample "$(awk "BEGIN { print 10000 / $sessions }")%" --require none --from 10.78.0.0/18 --sample-from 10.79.0.0/24 \
    --json "$folder/$name.json" "$@" >"$folder/$name.text" 2>&1 &
  load=$!
  until [ "$(sessions)" -ge "$sessions" ]; do
    kill -0 "$load" || { cat "$folder/$name.text" >&2; exit 1; }
    sleep 0.2
  done
  sleep 2 # the last ones begin to play
  before=$(spent)
  eval "$beside"
  echo "$before $(spent)" >"$folder/$name.spent"
  wait "$load" || { cat "$folder/$name.text" >&2; exit 1; }
  load=
}

for round in $(seq "$rounds"); do
  for way in interleaved wire_uring; do
    case $way in
    interleaved) start --hot-memory 0 --admission off --max-sessions-per-address 1000 ;;
    wire_uring) start --hot-memory 512MiB --admission off --max-sessions-per-address 1000 ;;
    esac
    run "$way-$round" "sleep 8" --transport tcp
    stop
  done
done
head -c 1048576 /dev/urandom >"$folder/media/download.bin"
start --admission off --max-sessions-per-address 1000
run udp-alone "sleep 8"
if command -v wrk >/dev/null; then
  run udp-beside-downloads "at $clients wrk -t 1 -c 100 -d 8s $http/download.bin >$folder/wrk.text"
fi
stop

python3 - "$folder" "$result" "$sessions" "$rounds" <<'P'
import json, os, statistics, sys
folder, result, sessions, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def run(name):
    process, busy, process_end, busy_end = map(int, open(f"{folder}/{name}.spent").read().split())
    load = json.load(open(f"{folder}/{name}.json"))
    late = load["media"]["lateness_ms"]
    return {"process_s": (process_end - process) / 1e9, "busy_s": (busy_end - busy) / os.sysconf("SC_CLK_TCK"),
            "lateness_p99_ms": late["p99"], "lateness_max_ms": late["max"], "timely": load["sessions"]["timely"],
            "judged": load["sessions"]["judged"], "lost": load["media"]["lost"]}
runs = {way: [run(f"{way}-{number + 1}") for number in range(rounds)] for way in ("interleaved", "wire_uring")}
summary = {"sessions": sessions, "window_s": 8, "tcp": runs, "ratios": {}}
for what in ("process_s", "busy_s"):
    ratios = [one[what] / other[what] for one, other in zip(runs["wire_uring"], runs["interleaved"])]
    summary["ratios"][what] = ratios
    print(f"wire_uring to interleaved, {what}: median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
for way, of in runs.items():
    print(f"{way}: " + "; ".join(f"process {one['process_s']:.2f} s, processor {one['busy_s']:.2f} s, p99 {one['lateness_p99_ms']:.1f} "
                                  f"ms, {one['timely']} of {one['judged']} timely, {one['lost']} lost" for one in of))
for name in ("udp-alone", "udp-beside-downloads"):
    if os.path.exists(f"{folder}/{name}.json"):
        summary[name] = one = run(name)
        print(f"{name}: processor {one['busy_s']:.2f} s, lateness p99 {one['lateness_p99_ms']:.1f} max {one['lateness_max_ms']:.1f} ms, "
              f"{one['timely']} of {one['judged']} timely, {one['lost']} lost")
if os.path.exists(f"{folder}/wrk.text"):
    summary["wrk"] = open(f"{folder}/wrk.text").read().split("\n")
    print("\n".join(line for line in summary["wrk"] if "sec:" in line))
with open(result, "w") as file: file.write(json.dumps(summary, indent=2) + "\n")
P
