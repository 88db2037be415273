#!/bin/sh
# Measures every data path on a real machine and network card, those of the kernel module included, and keeps a result folder:
#
#   scripts/measure-module.sh --sink HOST:PORT --device eth1 [--out FOLDER] [--quick] [-- OPTIONS OF `wirepath assess`]
#
# On the other host, first: wirepath assess sink --listen 0.0.0.0:PORT
# Further options: --wirepath PROGRAM (target/release/wirepath without), --modules FOLDER (wirepath.ko and wirepath_copies.ko that
# are built already). Exit code: 0, that of what failed, 64 for wrong arguments, 69 where something is missing.
set -eu
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
own=$(cd "$(dirname "$0")/.." && pwd)
sink='' device='' out='' modules='' wirepath=$own/target/release/wirepath quick=''

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 64; }
missing() { echo "measure-module.sh: $1" >&2; exit 69; }
value() { [ $# -ge 2 ] || { echo "measure-module.sh: $1 needs a value" >&2; usage; }; }

while [ $# -gt 0 ]; do
  case $1 in
    --sink) value "$@"; sink=$2; shift 2 ;;
    --device) value "$@"; device=$2; shift 2 ;;
    --out) value "$@"; out=$2; shift 2 ;;
    --modules) value "$@"; modules=$(cd "$2" && pwd); shift 2 ;;
    --wirepath) value "$@"; wirepath=$2; shift 2 ;;
    --quick) quick=--quick; shift ;;
    --) shift; break ;;
    *) echo "measure-module.sh: unknown argument $1" >&2; usage ;;
  esac
done
[ -n "$sink" ] && [ -n "$device" ] || usage
case $sink in *:*) ;; *) echo "measure-module.sh: --sink $sink has no port" >&2; usage ;; esac
host=${sink%:*}; host=${host#[}; host=${host%]}

[ "$(id -u)" = 0 ] || missing "loading modules takes root: run it with sudo"
[ -x "$wirepath" ] || missing "there is no $wirepath: make build, or name one with --wirepath"
[ -d "/sys/class/net/$device" ] || missing "there is no device $device; there are: $(ls /sys/class/net | tr '\n' ' ')"
# Of a name, its first address; a route says where packets leave.
address=$(getent ahosts "$host" | awk 'NR == 1 { print $1 }')
[ -n "$address" ] || missing "$host is not known: name an address with --sink"
route=$(ip route get "$address" 2>&1) || missing "there is no route to $host: $route"
case " $(echo $route) " in
  *" dev $device "*) ;;
  *) missing "packets to $host do not leave by $device, but: $(echo $route)" ;;
esac

if [ -z "$modules" ]; then
  headers=/lib/modules/$(uname -r)/build
  [ -d "$headers" ] || missing "the kernel's headers are not in $headers (Debian: apt install linux-headers-$(uname -r))"
  for module in module copies; do
    make -C "$own/kernel/$module" modules >/dev/null || missing "kernel/$module does not build"
  done
  modules=$own/kernel/module
  copies=$own/kernel/copies/wirepath_copies.ko
else
  copies=$modules/wirepath_copies.ko
fi

goals=$(dirname "$wirepath")/assessment-docs
out=${out:-$own/results/$(date -u +%Y-%m-%d)-$(uname -n)-module}
[ ! -e "$out" ] || missing "$out is there already: name another folder with --out"
mkdir -p "$out"

# What was loaded here is unloaded at the end, whatever it is; what was there stays.
loaded=''
unload() { for name in $loaded; do rmmod "$name" || echo "measure-module.sh: $name stays loaded" >&2; done; }
trap unload EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
load() { # file, name
  [ ! -d "/sys/module/$2" ] || { echo "$2 is loaded already; that one is measured" >&2; return; }
  insmod "$1" || missing "$1 does not load (with Secure Boot it must be signed; dmesg says more)"
  loaded="$2 $loaded"
}
load "$modules/wirepath.ko" wirepath
load "$copies" wirepath_copies

assess() { # name, experiment and its options
  name=$1; shift
  echo "wirepath assess $*" >&2
  "$wirepath" assess "$@" --json "$out/$name.json" >"$out/$name.txt"
}
assess count count --sink drop
assess drop stream $quick --sink drop "$@"
assess stream stream $quick --sink "$sink" "$@"
assess download download $quick --sink "$sink" "$@"
if [ -x "$goals" ]; then
  "$goals" goals "$out/stream.json" "$out/drop.json" >"$out/goals.txt"
else
  echo "measure-module.sh: no goals.txt: $goals is not built (cargo build --release -p wirepath-assessment-docs)" >&2
fi

# No line fails for want of a tool that only describes.
{
  echo "# The data paths of the kernel module on $(uname -n)"
  echo
  echo "Made $(date -u +%Y-%m-%dT%H:%M:%SZ) by \`scripts/measure-module.sh\`, $("$wirepath" --version), sink $sink by $device."
  echo
  echo "| file | what it is |"
  echo "| --- | --- |"
  echo "| count.json, count.txt | kernel calls and copies of each path (to a device that drops) |"
  echo "| drop.json, drop.txt | streaming to a device that drops: what the network card costs is not in it |"
  echo "| stream.json, stream.txt | streaming over $device |"
  echo "| download.json, download.txt | download over $device |"
  echo "| goals.txt | what the module gains: A over $device, B to the device that drops |"
  echo
  echo '```'
  uname -srvm
  grep -m 1 'model name' /proc/cpuinfo || echo "(/proc/cpuinfo names no processor: $(uname -m))"
  ethtool -i "$device" 2>&1 || echo "(so the driver of $device is not known)"
  ethtool -k "$device" 2>&1 | grep -E 'checksumming|scatter|segmentation|gso|ethtool' || echo "(so what $device cuts is not known)"
  ip -s link show dev "$device" 2>&1 || echo "(so what $device has sent is not known)"
  echo '```'
} >"$out/README.md"
echo "$out"
