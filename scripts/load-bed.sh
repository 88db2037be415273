# Sourced by scripts that load a server: two namespaces, and a server on the last processor.
#
#   clients' namespace, on other processors         server's namespace, on the last processor
#   10.77.0.2/24 veth ------------------------ veth 10.77.0.1/24
#   10.78.0.0/16 local: not judged                  10.78.0.0/16 for UDP: dev sink, dropped
#   10.79.0.0/16 local: judged                      10.79.0.0/16 via 10.77.0.2
#
# Sets folder, clients, servers (names of the namespaces), server (its process), rtsp and http (its URLs).
folder=$(mktemp -d) server= load=
clients=wirepath-$$-0 servers=wirepath-$$-1
trap 'kill $load $server 2>/dev/null || :; wait; ip netns del "$clients"; ip netns del "$servers"; rm -rf "$folder"' EXIT
at() { ip netns exec "$@"; }

last=$(($(nproc) - 1)) others=$(($(nproc) > 1 ? $(nproc) - 2 : 0))
taskset -pc "0-$others" $$ >"$folder/taskset"
ulimit -n "$(ulimit -Hn)"
for one in "$clients" "$servers"; do
  ip netns add "$one"
  ip -n "$one" link set lo up
done
ip -n "$clients" link add veth type veth peer name veth netns "$servers"
ip -n "$clients" address add 10.77.0.2/24 dev veth
ip -n "$servers" address add 10.77.0.1/24 dev veth
for one in "$clients" "$servers"; do ip -n "$one" link set veth up; done
# What the clients receive is their work: their processors do it, not the server's.
at "$clients" sh -c "printf %x $(((1 << (others + 1)) - 1)) >/sys/class/net/veth/queues/rx-0/rps_cpus"
# Reports come from addresses whose UDP is routed to the sink.
at "$servers" sh -c 'for all in /proc/sys/net/ipv4/conf/*/rp_filter; do echo 0 >"$all"; done'
ip -n "$servers" link add sink mtu 1500 type ifb 2>"$folder/ifb" || ip -n "$servers" link add sink mtu 1500 type dummy
ip -n "$servers" address add 10.80.0.1/16 dev sink
ip -n "$servers" link set sink up
for network in 10.78.0.0/16 10.79.0.0/16; do
  ip -n "$clients" route add local $network dev lo
  ip -n "$servers" route add $network via 10.77.0.2
done
ip -n "$servers" route add 10.78.0.0/16 via 10.80.0.2 dev sink onlink table 100
ip -n "$servers" rule add ipproto udp lookup 100

# Packs clip.ts of 120 s: bits per second.
pack() {
  mkdir "$folder/media"
  ffmpeg -nostdin -v error -f lavfi -i testsrc2=size=640x360:rate=25:duration=120 -c:v libx264 -preset ultrafast \
    -pix_fmt yuv420p -g 25 -b:v 1500k -maxrate 1500k -bufsize 750k -muxrate "$1" -f mpegts "$folder/media/clip.ts"
  "$program" pack --cache "$folder/cache" "$folder/media" >"$folder/pack.log" 2>&1
}

# Starts a server of what was packed: further arguments.
start() {
  : >"$folder/ready"
  ip netns exec "$servers" taskset -c "$last" "$program" serve "$folder/media" --cache "$folder/cache" \
    --rtsp 10.77.0.1:0 --http 10.77.0.1:0 --threads 1 "$@" >"$folder/ready" 2>"$folder/log" &
  server=$!
  until grep -q ^ready "$folder/ready"; do
    kill -0 "$server" || { cat "$folder/log" >&2; exit 1; }
    sleep 0.1
  done
  rtsp=$(sed -n 's|.* rtsp=\(rtsp://[^/]*\)/.*|\1|p' "$folder/ready")
  http=$(sed -n 's|.* http=\(http://[^/]*\)/.*|\1|p' "$folder/ready")
}

# Ends the server.
stop() {
  kill "$server"
  wait "$server" || :
  server=
}

# Packs and serves: bits per second, further arguments.
serve() {
  pack "$1"
  shift
  start "$@"
}

sessions() { at "$clients" curl -s "$http/metrics" | awk '$1 == "wirepath_rtsp_sessions" { print n = $2 } END { if (n == "") print -1 }'; }
