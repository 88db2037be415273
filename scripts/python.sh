#!/usr/bin/env bash
# The Python package. `scripts/python.sh wheel` builds it to target/wheels, `scripts/python.sh test` builds it
# unoptimised and tests it in an environment of its own (target/python). Where Python 3.11 or maturin cannot
# be had, the test is skipped.
set -eu
cd "$(dirname "$0")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1
what=${1:-}
environment=target/python
python=$environment/bin/python

missing() {
  if [ "$what" = test ]; then
    printf 'SKIP python: %s\ntest result: ok. 0 passed; 0 failed; 1 ignored\n' "$1"
    exit 0
  fi
  echo "python.sh: $1" >&2; exit 69
}
build() { $environment/bin/maturin build --locked --manifest-path crates/python/Cargo.toml "$@"; }

case $what in wheel) needed="maturin>=1.8,<2" ;; test) needed="maturin>=1.8,<2 numpy>=1.26 pytest>=7" ;;
*) echo "python.sh: unknown argument '$what': expected wheel or test" >&2; exit 64 ;; esac
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  missing "Python 3.11 or newer is not installed"
[ -x $python ] || python3 -m venv $environment ||
  { rm -rf $environment; missing "venv fails: install the package python3-venv"; }
for package in $needed; do
  $python -c "import ${package%%>*}" 2>/dev/null || $python -m pip install --quiet "$package" ||
    missing "${package%%>*} cannot be installed by pip"
done
if [ "$what" = wheel ]; then build --release --out target/wheels; exit; fi

rm -rf $environment/wheels
build --profile dev --out $environment/wheels
$python -m pip install --quiet --no-index --no-deps --force-reinstall $environment/wheels/*.whl
cd crates/python
exec ../../$python -m pytest --quiet -p no:cacheprovider
