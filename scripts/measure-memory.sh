#!/bin/sh
# Memory of `wirepath serve` for each session, sockets aside: a server and `wirepath load` for each number of sessions.
#
#   scripts/measure-memory.sh CLIP SESSIONS...        (PROGRAM=target/release/wirepath)
#
# One line of JSON for each number: memory of the server with one session in 100 that came before, with all of them, and
# the difference for each session in between. Anonymous memory is what the server allocated; the rest of the resident
# memory are pages of files and of its program. Sessions play for some seconds, since buffers grow while they do.
set -eu
program=${PROGRAM:-target/release/wirepath}
[ $# -ge 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 64; }
clip=$1
shift
folder=$(mktemp -d)
server= few= many=
trap '[ -z "$server" ] || kill $few $many $server 2>/dev/null || :; wait; rm -rf "$folder"' EXIT
mkdir "$folder/media"
cp "$clip" "$folder/media/clip.ts"
# Ahead of time: a server keeps some of the memory in which it has made an image, however many sessions come.
"$program" pack --cache "$folder/cache" "$folder/media" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
ulimit -n "$(ulimit -Hn)"

fetch() { wget -qO- "http://$http/metrics"; }
sessions() { fetch | awk '$1 == "wirepath_rtsp_sessions" { print n = $2 } END { if (n == "") print 0 }'; }
memory() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$server/status"; }
begin() { # name, sessions, address
  "$program" load "rtsp://$rtsp/clip.ts" --sessions "$2" --ramp 500 --for "${SECONDS_PLAYED:-15}s" --sample 0% \
    --require none --from "$3" --json "$folder/$1.json" >"$folder/$1.log" 2>&1 &
}
wait_for() { # sessions, seconds
  left=$(($2 * 4))
  while [ "$(sessions)" -lt "$1" ]; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || { echo "$(sessions) of $1 sessions are open" >&2; break; }
    sleep 0.25
  done
  sleep 5
}

for count in "$@"; do
  : >"$folder/ready"
  "$program" serve "$folder/media" --cache "$folder/cache" --rtsp 127.0.0.1:0 --http 127.0.0.1:0 --admission off \
    --hot-memory 0 --burst "${BURST:-auto}" --max-sessions "$count" --max-sessions-per-address "$count" \
    --max-connections "$((count + 100))" --max-connections-per-address "$((count + 100))" \
    >"$folder/ready" 2>"$folder/log" &
  server=$!
  until grep -q ^ready "$folder/ready"; do
    kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
    sleep 0.1
  done
  rtsp=$(sed -n 's|.* rtsp=rtsp://\([^/]*\)/.*|\1|p' "$folder/ready")
  http=$(sed -n 's|.* http=http://\([^/]*\)/.*|\1|p' "$folder/ready")
  first=$((count / 100 + 1))
  begin few "$first" 127.2.0.1
  few=$!
  wait_for "$first" 60
  anonymous=$(memory RssAnon) resident=$(memory VmRSS)
  begin many "$((count - first))" 127.1.0.0/24
  many=$!
  wait_for "$count" $((count / 500 + 60))
  now=$(sessions)
  echo "$count $first $now $anonymous $(memory RssAnon) $resident $(memory VmRSS)" | awk '{
    printf "{\"asked\": %d, \"open\": %d, \"before\": {\"sessions\": %d, \"anonymous_kib\": %d, \"resident_kib\": %d}, ", \
      $1, $3, $2, $4, $6
    printf "\"then\": {\"anonymous_kib\": %d, \"resident_kib\": %d}, ", $5, $7
    printf "\"kib_per_session\": {\"anonymous\": %.2f, \"resident\": %.2f}, ", \
      ($5 - $4) / ($3 - $2), ($7 - $6) / ($3 - $2) }'
  echo "\"descriptors\": $(ls "/proc/$server/fd" | wc -l), \"threads\": $(memory Threads)}"
  kill $few $many 2>/dev/null || :
  wait $few $many || :
  kill "$server"
  wait "$server" || :
  server= few= many=
done
