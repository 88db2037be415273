#!/usr/bin/env bash
# Compares the interface of the published crates with that of an earlier version: scripts/semver.sh TAG.
set -eu
cd "$(dirname "$0")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
baseline=${1:-}
if [ -z "$baseline" ]; then
  echo "semver.sh: no version to compare with; name a tag or commit: make semver BASELINE=v0.1.0" >&2; exit 64
fi
if ! command -v cargo-semver-checks >/dev/null; then
  echo "semver.sh: cargo-semver-checks is not installed; run: cargo install --locked cargo-semver-checks" >&2; exit 69
fi
packages=()
for manifest in crates/*/Cargo.toml; do
  # A crate that is published does not inherit `publish`.
  grep -q '^publish\.workspace' "$manifest" ||
    packages+=(--package "$(sed -n '/^name = /{s/.*"\(.*\)".*/\1/p;q}' "$manifest")")
done
exec cargo semver-checks check-release --baseline-rev "$baseline" "${packages[@]}"
