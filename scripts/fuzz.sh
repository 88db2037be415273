#!/usr/bin/env bash
# Runs every fuzz target for so many minutes (scripts/fuzz.sh [MINUTES]), growing fuzz/corpus. `make test` replays it.
set -eu
cd "$(dirname "$0")/.."
minutes=${1:-3}
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

rustup run nightly rustc --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal
command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
for target in fuzz/fuzz_targets/*.rs; do
  name=$(basename "$target" .rs)
  echo "=== $name for $minutes minutes"
  cargo +nightly fuzz run "$name" -- -max_len=65536 -max_total_time=$((minutes * 60)) -timeout=5 -rss_limit_mb=1024
  # Keep only inputs that reach something that no smaller one reaches.
  cargo +nightly fuzz cmin "$name"
done
