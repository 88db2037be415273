#!/bin/sh
# Processor time of a client of a movie and of a channel, beside one of a transport stream, in interleaved rounds. Takes
# root and two processors:
#
#   scripts/measure-formats.sh [RESULT.jsonl]     (PROGRAM=target/release/wirepath ROUNDS=5 CLIENTS="100 1000")
#
# One line of JSON for each measurement: what, clients, and processor seconds for a minute of one client, user and system.
# "stream" and "movie" are the same H.264 and AAC of 4 Mb/s in two containers, played over UDP by `wirepath assess clients`;
# "copied" is the stream played by gso_writev, by which channels are sent (headers of their own);
# "channels" are as many channels of `wirepath send`, each a multicast group of its own, to a device that drops as that of
# the others does. They name their interface, for which Linux keeps the route: results until 2026-11-30 are without it. The
# ratios to "stream" in the same round are printed at the end: the median, the least and the most.
set -eu
program=$(realpath "${PROGRAM:-target/release/wirepath}") rounds=${ROUNDS:-5} numbers=${CLIENTS:-100 1000}
result=${1:-target/formats.jsonl} window=${WINDOW:-8}
folder=$(mktemp -d) sender= hosts=wirepath-$$
trap 'kill $sender 2>/dev/null || :; wait; ip netns del "$hosts" 2>/dev/null || :; rm -rf "$folder"' EXIT
processor=$(($(nproc) - 1))
ulimit -n "$(ulimit -Hn)"

# Noise, since a still picture would not fill its rate.
ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=1280x720:rate=25:duration=60,noise=alls=20:allf=t \
  -f lavfi -i sine=sample_rate=48000:duration=60 -c:v libx264 -preset ultrafast -pix_fmt yuv420p -b:v 3800k -maxrate 3800k \
  -bufsize 1900k -g 25 -c:a aac -b:a 128k "$folder/clip.mp4"
ffmpeg -nostdin -v error -i "$folder/clip.mp4" -c copy "$folder/clip.ts"

ip netns add "$hosts"
ip -n "$hosts" link set lo up
ip -n "$hosts" link add sink mtu 1500 type ifb 2>"$folder/ifb" || ip -n "$hosts" link add sink mtu 1500 type dummy
ip -n "$hosts" address add 10.80.0.1/16 dev sink
ip -n "$hosts" link set sink up
ip -n "$hosts" route add 239.0.0.0/8 dev sink

line() { # what, clients, seconds a client-minute
  echo "{\"round\": $round, \"what\": \"$1\", \"clients\": $2, \"cpu_s_per_client_minute\": $3}" | tee -a "$result" >&2
}
play() { # what, clients, file, further arguments
  what=$1 clients=$2 file=$3
  shift 3
  "$program" assess clients --quick --window "${window}s" --first "$clients" --most "$clients" --file "$folder/$file" "$@" \
    --json "$folder/result.json" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  python3 - "$folder/result.json" "$clients" >"$folder/cost" <<'P'
import json, sys
step = json.load(open(sys.argv[1]))["searches"][0]["steps"][-1]
if step["clients"] != int(sys.argv[2]) or step["limit"]:
    sys.exit(f"not timely with {sys.argv[2]} clients: {step['reason']}")
figures = step["figures"]
print((figures["user_s"] + figures["system_s"]) * 60 / figures["window_s"] / step["clients"])
P
  line "$what" "$clients" "$(cat "$folder/cost")"
}
# User and system time of the sender, in nanoseconds: all threads, by the scheduler.
used() { cat "/proc/$sender/task"/*/schedstat 2>"$folder/ended" | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }
send() { # channels
  awk -v count="$1" -v clip="$folder/clip.ts" 'BEGIN { for (n = 0; n < count; n++)
    printf "[channel-%d]\nassets = [\"%s\"]\nloop = true\nto = [\"rtp://239.7.%d.%d:5004?interface=10.80.0.1\"]\n", n, clip, n / 250, n % 250 + 1
  }' >"$folder/channels.toml"
  : >"$folder/ready"
  ip netns exec "$hosts" taskset -c "$processor" "$program" send --config "$folder/channels.toml" --cache "$folder/cache" \
    --burst auto --threads 1 >"$folder/ready" 2>"$folder/log" &
  sender=$!
  until grep -q ^ready "$folder/ready"; do
    kill -0 "$sender" || { cat "$folder/log" >&2; exit 1; }
    sleep 0.1
  done
  # It chooses its data path by measuring, once.
  until grep -q 'measured by the server' "$folder/log"; do
    kill -0 "$sender" || { cat "$folder/log" >&2; exit 1; }
    sleep 0.1
  done
  sleep 2 # settling, as above
  before=$(used) begin=$(date +%s%N)
  sleep "$window"
  line channels "$1" "$(echo "$before $(used) $begin $(date +%s%N) $1" | awk '{ print ($2 - $1) * 60 / ($4 - $3) / $5 }')"
  kill "$sender"
  wait "$sender" || :
  sender=
}

: >"$result"
for round in $(seq "$rounds"); do
  for number in $numbers; do
    play stream "$number" clip.ts
    play copied "$number" clip.ts --path gso_writev
    play movie "$number" clip.mp4
    send "$number"
  done
done
python3 - "$result" <<'P'
import collections, json, statistics, sys
cost = collections.defaultdict(dict)
for line in map(json.loads, open(sys.argv[1])):
    cost[line["clients"], line["round"]][line["what"]] = line["cpu_s_per_client_minute"]
for clients in sorted({clients for clients, _ in cost}):
    for what in ("copied", "movie", "channels"):
        ratios = sorted(row[what] / row["stream"] for (number, _), row in cost.items() if number == clients)
        print(f"{clients:6} {what:9} {statistics.median(ratios):.2f} of a stream ({ratios[0]:.2f} to {ratios[-1]:.2f})")
P
