#!/usr/bin/env bash
# Runs every fuzz target, or the named ones, for so many minutes each: scripts/fuzz.sh [MINUTES] [TARGET...].
# What reaches something new is kept in fuzz/corpus, made small again; what breaks a promise is in fuzz/artifacts.
set -eu
cd "$(dirname "$0")/.."
minutes=${1:-3}
[[ $minutes =~ ^[1-9][0-9]*$ ]] || { echo "fuzz.sh: '$minutes' is no number of minutes; run: make fuzz MINUTES=3" >&2; exit 64; }
shift $(($# > 0))
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

command -v rustup >/dev/null || { echo "fuzz.sh: rustup is missing; run: scripts/install.sh" >&2; exit 69; }
command -v c++ >/dev/null || { echo "fuzz.sh: libFuzzer needs a C++ compiler; as root, run: apt-get install g++" >&2; exit 69; }
rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz

[ $# -gt 0 ] || set -- $(basename -s .rs fuzz/fuzz_targets/*.rs)
broken=()
for name in "$@"; do
  [ -e "fuzz/fuzz_targets/$name.rs" ] || { echo "fuzz.sh: no target $name in fuzz/fuzz_targets" >&2; exit 64; }
  echo "=== $name for $minutes minutes"
  options=(-max_len=24000 -max_total_time=$((minutes * 60)) -timeout=5 -rss_limit_mb=1024 -print_final_stats=1)
  [ ! -e "fuzz/dictionaries/$name.dict" ] || options+=("-dict=fuzz/dictionaries/$name.dict")
  # One target's find must not keep the others from running.
  cargo +nightly fuzz run "$name" -- "${options[@]}" || { broken+=("$name"); continue; }
  # Keep only inputs that reach something that no smaller one reaches.
  cargo +nightly fuzz cmin "$name"
done
if [ ${#broken[@]} -gt 0 ]; then
  echo "fuzz.sh: promises are broken in: ${broken[*]}; the inputs are in fuzz/artifacts (fuzz/README.md says what next)" >&2
  exit 1
fi
