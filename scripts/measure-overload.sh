#!/bin/sh
# Twice the clients that fit on one processor: 500 that come within a second must be admitted, of twice as many as fit those
# admitted must stay timely and the others get 453, and afterwards all must be as before, memory too. Takes root, and five
# minutes:
#
#   scripts/measure-overload.sh [RESULT.json]         (PROGRAM=target/release/wirepath RATE=50000000 RESERVE=15)
set -eu
program=$(realpath "${PROGRAM:-target/release/wirepath}") rate=${RATE:-50000000} reserve=${RESERVE:-15}
result=${1:-target/overload.json} ramp=500 first=500 most=20000
. "$(dirname "$0")/load-bed.sh"
serve "$rate" --reserve "$reserve%" --session-timeout 10s

count() {
  echo "{\"sessions\": $(sessions), \"descriptors\": $(ls "/proc/$server/fd" | wc -l), \
\"threads\": $(awk '$1 == "Threads:" { print $2 }' "/proc/$server/status"), \
\"anonymous_kib\": $(awk '$1 == "RssAnon:" { print $2 }' "/proc/$server/status")}"
}
# Idle assets are closed and idle threads end within a minute.
settle() { until [ "$(sessions)" = 0 ]; do sleep 1; done; sleep 75; count >"$folder/$1.count"; }
play() { # name, sessions
  ip netns exec "$clients" "$program" load "$rtsp/clip.ts" --sessions "$2" --ramp $ramp --for 15s --buffer 1s --require none \
    --sample "$(awk "BEGIN { print ($2 > 100 ? 10000 / $2 : 100) }")%" --from 10.78.0.0/18 --sample-from 10.79.0.0/24 \
    --json "$folder/$1.json" >"$folder/$1.text" &
  load=$!
  while kill -0 "$load" 2>/dev/null; do count >>"$folder/$1.counts"; sleep 2; done
  wait "$load"
  load=
  at "$clients" curl -s "$http/api/status" >"$folder/$1.status"
}
refused() { grep -o '"SETUP was refused: 453[^,}]*' "$folder/$1.json" | awk -F: '{ n += $NF } END { print n + 0 }'; }

play warm 1
settle before
play first $first
capacity=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["capacity"]["sessions"])' "$folder/first.status")
asked=$((2 * capacity))
while :; do
  [ "$asked" -le "$most" ] || { echo "$asked sessions are more than $most: raise RATE or RESERVE" >&2; exit 1; }
  until [ "$(sessions)" = 0 ]; do sleep 1; done
  play overload "$asked"
  [ "$(refused overload)" = 0 ] || break
  # The more sessions, the longer the bursts, and the less each costs.
  asked=$((2 * asked))
done
settle after
play then $first

python3 - "$folder" "$result" "$rate" "$reserve" "$capacity" "$asked" <<'END'
import json, sys
folder, result = sys.argv[1:3]
rate, reserve, capacity, asked = map(int, sys.argv[3:7])
runs = {name: json.load(open(f"{folder}/{name}.json")) for name in ["first", "overload", "then"]}
statuses = {name: json.load(open(f"{folder}/{name}.status")) for name in runs}
before, after = (json.load(open(f"{folder}/{name}.count")) for name in ["before", "after"])
refused = lambda run: sum(number for reason, number in run["failures"].items() if reason.startswith("SETUP was refused: 453"))
over = runs["overload"]["sessions"]
wrong = []
for name, run in runs.items():
    sessions = run["sessions"]
    if sessions["failed"] != refused(run): wrong.append(f"{name}: other failures: {run['failures']}")
    # Sessions that are refused count as judged, and are not timely.
    admitted = sessions["judged"] - (sessions["failed"] - run["unjudged"]["failed"])
    if sessions["timely"] != admitted: wrong.append(f"{name}: {sessions['timely']} of {admitted} timely")
    if run["media"]["lost"]: wrong.append(f"{name}: {run['media']['lost']} packets lost")
for name in ["first", "then"]:
    if refused(runs[name]): wrong.append(f"{name}: {refused(runs[name])} sessions were refused by an idle server")
# As `wirepath assess clients` judges: bursts of 100 ms at most, and 5 ms.
for name, run in runs.items():
    late_ms = run["media"]["lateness_ms"]["p99"]
    if late_ms > 105: wrong.append(f"{name}: 99 % of the bursts at most {late_ms:.0f} ms late")
if after["anonymous_kib"] > before["anonymous_kib"] + (8 << 10):
    wrong.append(f"memory: {before['anonymous_kib']} KiB before, {after['anonymous_kib']} KiB after")
wrong += [f"{key}: {before[key]} before, {after[key]} after" for key in ["descriptors", "threads"] if after[key] > before[key]]
keys = ["sessions", "failures", "setup_ms", "first_packet_ms", "media", "unjudged", "client"]
summary = {
    "bits_per_second": rate, "reserve_percent": reserve, "capacity_after_first": capacity, "asked": asked,
    "admitted": over["started"] - over["failed"], "refused": refused(runs["overload"]), "wrong": wrong,
    # Refusals of all runs until then, by reason.
    "refused_until_then": {name: status["counters"]["rtsp"]["sessions_refused"] for name, status in statuses.items()},
    **{name: {key: run[key] for key in keys} for name, run in runs.items()},
    "before": before, "after": after, "counts": [json.loads(line) for line in open(f"{folder}/overload.counts")],
}
with open(result, "w") as file:
    file.write(json.dumps(summary, indent=2) + "\n")
late = runs["overload"]["media"]["lateness_ms"]
print(f"of {asked} sessions {summary['admitted']} were admitted, {summary['refused']} refused; {over['timely']} judged ones "
      f"timely, lateness p99 {late['p99']:.1f}, max {late['max']:.1f} ms; before {before}, after {after}")
print("\n".join(wrong) or "all as it shall be")
sys.exit(bool(wrong))
END
