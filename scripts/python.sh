#!/usr/bin/env bash
# The Python package. `scripts/python.sh wheel` builds it to target/wheels. `scripts/python.sh test` tests it in an
# environment of its own (target/python), with the library of the dev profile; with WIREPATH_LONG it tests a wheel, whose
# build takes longer. WIREPATH_BUILT says that the workspace, and so the library, is built. Where Python 3.11 or a package
# cannot be had, the test is skipped.
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

maturin="maturin>=1.8,<2"
case $what in wheel) needed=$maturin ;; test) needed="${WIREPATH_LONG:+$maturin} numpy>=1.26 pytest>=7" ;;
*) echo "python.sh: unknown argument '$what': expected wheel or test" >&2; exit 64 ;; esac
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  missing "Python 3.11 or newer is not installed"
# An interrupted installation leaves an environment without pip.
$python -m pip --version >/dev/null 2>&1 || python3 -m venv --clear $environment ||
  { rm -rf $environment; missing "venv fails: install the package python3-venv"; }
for package in $needed; do
  $python -c "import ${package%%>*}" 2>/dev/null || $python -m pip install --quiet "$package" ||
    missing "${package%%>*} cannot be installed by pip"
done
if [ "$what" = wheel ]; then build --release --out target/wheels; exit; fi

if [ -n "${WIREPATH_LONG:-}" ]; then
  rm -rf $environment/wheels
  build --profile dev --out $environment/wheels
  $python -m pip install --quiet --no-index --no-deps --force-reinstall $environment/wheels/*.whl
else
  [ -n "${WIREPATH_BUILT:-}" ] || cargo build --locked -p wirepath-python
  package=$environment/package/wirepath
  rm -rf $package && mkdir -p $package
  cp crates/python/python/wirepath/* $package
  cp "${CARGO_TARGET_DIR:-target}/debug/lib_wirepath.so" $package/_wirepath.abi3.so
  export PYTHONPATH=$PWD/$environment/package
fi
cd crates/python
exec ../../$python -m pytest --quiet -p no:cacheprovider
