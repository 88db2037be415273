#!/usr/bin/env bash
# Serves a folder (MEDIA, or a sample clip) and says how to play from it. Further arguments go to `wirepath serve`.
set -eu
cd "$(dirname "$0")/.."
media=${MEDIA:-}

if [ -z "$media" ]; then
  media=target/sample
  mkdir -p "$media"
  if [ ! -e "$media/clip.ts" ] || [ ! -e "$media/clip.mp4" ]; then
    echo "Making a sample clip of 60 s in $media"
    ffmpeg -nostdin -v error -y -f lavfi -i testsrc2=size=1280x720:rate=25 -f lavfi -i sine=frequency=440:sample_rate=48000 \
      -t 60 -c:v libx264 -preset veryfast -pix_fmt yuv420p -g 50 -b:v 3500k -minrate 3500k -maxrate 3500k -bufsize 1750k \
      -c:a aac -b:a 128k -muxrate 4000k -f mpegts "$media/clip.ts.part"
    ffmpeg -nostdin -v error -y -i "$media/clip.ts.part" -c copy -movflags +faststart -f mp4 "$media/clip.mp4.part"
    mv "$media/clip.ts.part" "$media/clip.ts"
    mv "$media/clip.mp4.part" "$media/clip.mp4"
  fi
fi
how_to_play() { # rtsp address, http address
  local host; host=$(hostname -I 2>/dev/null | cut -d' ' -f1); host=${host:-127.0.0.1}
  local rtsp=${1/0.0.0.0/$host} http=${2/0.0.0.0/$host} clip= names
  rtsp=${rtsp/\[::\]/$host} http=${http/\[::\]/$host}
  # Hidden files are not served. Names that need no quoting first, and transport streams before movies: VLC of Debian
  # plays only those over RTSP.
  names=$(if [ -d "$media" ]; then cd "$media" && find . -type f | cut -c3- | sort; else basename "$media"; fi |
    grep -v '^[.]\|/[.]') || names=
  for pattern in '^[A-Za-z0-9_-][A-Za-z0-9._/-]*[.]ts$' '^[A-Za-z0-9_-][A-Za-z0-9._/-]*[.](mp4|m4v|mov|mkv|webm)$' \
    '[.](ts|mp4|m4v|mov|mkv|webm)$'; do
    [ -n "$clip" ] || clip=$(LC_ALL=C grep -E -m 1 "$pattern" <<<"$names") || clip=
  done
  if [ -z "$clip" ]; then
    cat <<EOF

Serving $media. No file in it has a name that ends in .ts, .mp4, .m4v, .mov, .mkv or .webm.
All files: $http   who plays what: ${http}status   metrics: ${http}metrics
Stop with Ctrl-C.
EOF
    return
  fi
  local url; url=$(url_path "$clip")
  # VLC without live555, as Debian builds it, plays transport streams only over RTSP.
  local vlc=$rtsp$url
  [[ $clip == *.ts ]] || vlc=$http$url
  cat <<EOF

Serving $media, for example $clip. Play it with any of

  ffplay -rtsp_transport udp $rtsp$url
  vlc $vlc
  gst-launch-1.0 playbin uri=$rtsp$url
  curl -O $http$url

All files: $http   who plays what: ${http}status   metrics: ${http}metrics
Stop with Ctrl-C.
EOF
}

# A path as a URL has it: what is no letter, digit or one of ._/- is percent-encoded.
url_path() {
  local LC_ALL=C text=$1 at byte
  for ((at = 0; at < ${#text}; at++)); do
    byte=${text:at:1}
    case $byte in
      [A-Za-z0-9._/-]) printf %s "$byte" ;;
      *) printf '%%%02X' "'$byte" ;;
    esac
  done
}

# The one line on standard output says that both listeners are open; the log goes to standard error.
"${CARGO_TARGET_DIR:-target}/release/wirepath" serve "$media" "$@" | while read -r word rtsp http; do
  echo "$word $rtsp $http"
  [ "$word" != ready ] || how_to_play "${rtsp#rtsp=}" "${http#http=}"
done
status=${PIPESTATUS[0]}
if [ "$status" = 1 ] || [ "$status" = 2 ]; then
  echo 'Options of `wirepath serve` go into ARGS: make run ARGS="--rtsp 0.0.0.0:9554 --http 0.0.0.0:9080"' >&2
fi
exit "$status"
