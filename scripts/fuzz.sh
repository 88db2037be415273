#!/usr/bin/env bash
# Runs every fuzz target, or the named ones, for so many minutes each: scripts/fuzz.sh [MINUTES] [TARGET...].
# What reaches something new is kept in fuzz/corpus, made small again; what breaks a promise is in fuzz/artifacts.
# The target `server` is the running server, met by wrong requests on real connections (tests/loopback/hostile.rs).
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

attack_server() {
  cargo build --quiet --locked -p wirepath &&
    WIREPATH_HOSTILE_SECONDS=$((minutes * 60)) WIREPATH_HOSTILE_SEED=$RANDOM \
      cargo test --quiet --locked -p wirepath-tests --test loopback -- hostile
}

[ $# -gt 0 ] || set -- $(basename -s .rs fuzz/fuzz_targets/*.rs) server
made=target/fuzz-seeds
cargo run --quiet --locked -p wirepath-fuzz --example seeds "$made"
broken=()
for name in "$@"; do
  if [ "$name" = server ]; then
    echo "=== the running server for $minutes minutes"
    attack_server || broken+=("$name")
    continue
  fi
  [ -e "fuzz/fuzz_targets/$name.rs" ] || { echo "fuzz.sh: no target $name in fuzz/fuzz_targets" >&2; exit 64; }
  echo "=== $name for $minutes minutes"
  options=(-max_len=24000 -max_total_time=$((minutes * 60)) -timeout=5 -rss_limit_mb=1024 -print_final_stats=1)
  [ ! -e "fuzz/dictionaries/$name.dict" ] || options+=("-dict=fuzz/dictionaries/$name.dict")
  folders=("fuzz/corpus/$name")
  for seeds in "fuzz/seeds/$name" "$made/$name"; do [ ! -d "$seeds" ] || folders+=("$seeds"); done
  # One target's find must not keep the others from running.
  cargo +nightly fuzz run "$name" "${folders[@]}" -- "${options[@]}" || { broken+=("$name"); continue; }
  # Keep only inputs that reach code that no smaller one reaches; how often they reach it would keep thousands.
  cargo +nightly fuzz cmin "$name" "fuzz/corpus/$name" -- -use_counters=0 -max_len=100000
done
if [ ${#broken[@]} -gt 0 ]; then
  echo "fuzz.sh: promises are broken in: ${broken[*]}; inputs are in fuzz/artifacts, seeds above (fuzz/README.md says what next)" >&2
  exit 1
fi
