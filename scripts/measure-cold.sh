#!/bin/sh
# Sessions on files of their own that nobody has read before, together larger than a memory limit. Takes root:
#
#   scripts/measure-cold.sh FOLDER [RESULT.json]
#
# In FOLDER, FILES (1000) files of 60 s and 2 Mb/s, 15 MB each, are made and kept for the next time. Three runs of
# `wirepath serve`, each after these files have left the page cache: half of the sessions within a second and without an
# index of any file; then one session for each file, 100 a second, in a control group of MEMORY_MIB (4096), first without
# and then with indexes. PROGRAM is target/release/wirepath without. Exit code: 0 if no session failed and no packet was lost.
set -eu
[ $# -ge 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 64; }
program=${PROGRAM:-target/release/wirepath} files=${FILES:-1000} memory=${MEMORY_MIB:-4096}
folder=$1 result=${2:-$1/result.json} server=
mkdir -p "$folder/media"

if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
  group=/sys/fs/cgroup/wirepath-cold-$$ limit=memory.max peak=memory.peak
else
  group=/sys/fs/cgroup/memory/wirepath-cold-$$ limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
fi
mkdir "$group"
trap '[ -z "$server" ] || kill "$server"; wait; rmdir "$group"' EXIT

clip=$folder/clip.ts
[ -f "$clip" ] || ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=640x360:rate=25:duration=60 \
  -f lavfi -i sine=frequency=440:sample_rate=48000:duration=60 -c:v libx264 -preset ultrafast -pix_fmt yuv420p -g 25 \
  -b:v 1500k -maxrate 1500k -bufsize 750k -c:a aac -b:a 128k -muxrate 2000000 -f mpegts "$clip"
evict() { find "$@" -type f -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none \; ; }
for number in $(seq "$files"); do
  [ -f "$folder/media/$number.ts" ] || { cp "$clip" "$folder/media/$number.ts" && evict "$folder/media/$number.ts"; }
done

run() { # name, sessions, ramp, with or without the limit of memory, options
  name=$1 sessions=$2 ramp=$3 limited=$4
  shift 4
  evict "$folder/media" "$folder/cache"
  : >"$folder/ready"
  # A new group, since its peak cannot be set back everywhere.
  rmdir "$group"
  mkdir "$group"
  echo $((memory << 20)) >"$group/$limit"
  sh -c '[ "$1" = no ] || echo $$ >"$2/cgroup.procs"; shift 2; exec "$@"' sh "$limited" "$group" \
    "$program" serve "$folder/media" --cache "$folder/cache" --calibration "$folder/calibration.json" --rtsp 127.0.0.1:0 \
    --http 127.0.0.1:0 --admission off "$@" \
    >"$folder/ready" 2>"$folder/$name.log" &
  server=$!
  until grep -q ^ready "$folder/ready"; do
    kill -0 "$server" || { cat "$folder/$name.log" >&2; exit 1; }
    sleep 0.1
  done
  rtsp=$(sed -n 's|.* rtsp=\(rtsp://[^/]*\)/.*|\1|p' "$folder/ready")
  http=$(sed -n 's|.* http=\(http://[^/]*\)/.*|\1|p' "$folder/ready")
  seq "$files" | sed "s|.*|$rtsp/&.ts|" | xargs -n "$files" "$program" load --sessions "$sessions" --ramp "$ramp" --for 20s \
    --mix even --from 127.1.0.0/24 --require none --json "$folder/$name.load" >"$folder/$name.text"
  curl -s "$http/api/status" >"$folder/$name.status"
  cp "$group/$peak" "$folder/$name.peak"
  kill "$server"
  wait "$server" || :
  server=
}

# Else the first server measures its data paths while sessions come.
: >"$folder/ready"
"$program" serve "$folder/media" --cache "$folder/calibrating" --calibration "$folder/calibration.json" --rtsp 127.0.0.1:0 \
  --http 127.0.0.1:0 >"$folder/ready" 2>"$folder/calibration.log" &
server=$!
until [ -s "$folder/calibration.json" ]; do
  kill -0 "$server" || { cat "$folder/calibration.log" >&2; exit 1; }
  sleep 0.1
done
kill "$server"
wait "$server" || :
server=
rm -rf "$folder/calibrating"

rm -rf "$folder/cache"
mkdir "$folder/cache"
run at_once_not_indexed $((files / 2)) $((files / 2)) no
rm -rf "$folder/cache"
mkdir "$folder/cache"
run beyond_memory_not_indexed "$files" 100 yes --images none
rm -rf "$folder/cache"
"$program" pack --index --cache "$folder/cache" "$folder/media" >"$folder/pack.log" 2>&1
run beyond_memory_indexed "$files" 100 yes --images none
rm -rf "$folder/cache"

python3 - "$folder" "$files" "$memory" "$result" <<'END'
import json, os, sys
folder, files, memory, result = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
summary = {"files": files, "bytes": files * os.path.getsize(f"{folder}/clip.ts"), "memory_limit_bytes": memory << 20}
is_well = True
for name in ["at_once_not_indexed", "beyond_memory_not_indexed", "beyond_memory_indexed"]:
    load, status = (json.load(open(f"{folder}/{name}.{kind}")) for kind in ["load", "status"])
    played = status["counters"]["playback"]
    run = {key: load[key] for key in ["sessions", "failures", "setup_ms", "first_packet_ms", "media", "client"]}
    run["assets_played"] = sum(asset["sessions"] > 0 for asset in load["assets"])
    run["payload_bytes"], run["lost_by_server"] = played["payload_bytes"], played["packets_lost"]
    run["read_while_an_engine_thread_waited_bytes"] = played["cold_bytes"]
    run["server_lateness_us"] = {key: status["lateness_us"][key] for key in ["p50", "p99", "max"]}
    run["pages"] = status["counters"]["pages"]
    if "beyond" in name:
        run["most_memory_bytes"] = int(open(f"{folder}/{name}.peak").read())
    is_well &= run["sessions"]["failed"] == 0 and run["media"]["lost"] == 0 and run["lost_by_server"] == 0
    summary[name] = run
    first, late = run["first_packet_ms"], run["media"]["lateness_ms"]
    print(f"{name}: {run['sessions']['timely']} of {run['sessions']['judged']} timely on {run['assets_played']} files; first "
          f"packet p50 {first['p50']:.0f}, p99 {first['p99']:.0f}, max {first['max']:.0f} ms; lateness p99 {late['p99']:.1f}, "
          f"max {late['max']:.1f} ms")
with open(result, "w") as file:
    file.write(json.dumps(summary, indent=2) + "\n")
sys.exit(not is_well)
END
