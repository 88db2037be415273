#!/usr/bin/env bash
# Installs what is missing: scripts/install.sh [run] [test] [players] [vm] [debug-kernel] [bench] [clients] [bpf]. Debian 12, Debian 13, Ubuntu 24.04.
# Nothing missing: nothing is called. No way to become root: prints the command for root and exits with 69.
set -eu
cd "$(dirname "$0")/.."
missing=()
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/sbin:/sbin" # ip and ethtool are not for root only

# command, its package
need() { command -v "$1" >/dev/null || missing+=("$2"); }
# a package without a command of its own
need_package() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ] || missing+=("$1"); }
available() { [ -n "$(apt-cache policy "$1" 2>/dev/null | sed -n '/Candidate: [^(]/p')" ]; }
# The toolchain that rust-toolchain.toml names. A distribution's own cargo is too old and ignores that file.
have_rust() { [ "$(cargo --version 2>/dev/null | cut -d' ' -f2)" = "$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)" ]; }

can_be_root() { [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }; }
# Tests compare with servers (nginx, HAProxy) whose packages would start a service: not here (Debian Policy 9.3.3, policy-rc.d).
no_services="p=/usr/sbin/policy-rc.d; [ -e \$p ] || { trap 'rm -f /usr/sbin/policy-rc.d' EXIT; printf '#!/bin/sh\\nexit 101\\n' >\$p; chmod 755 \$p; }"
as_root() {
  if [ "$(id -u)" = 0 ]; then sh -c "$no_services; $1"
  elif can_be_root; then sudo sh -c "$no_services; $1"
  else
    printf 'Missing: %s\nAs root, run:\n\n  %s\n\nthen try again.\n' "${missing[*]}" "$1" >&2
    exit 69
  fi
}

# Guests, and modules for their kernels. The kernels themselves are unpacked by tests/vm, never installed.
need_guests() {
  need qemu-system-x86_64 qemu-system-x86; need busybox busybox-static; need mkfs.ext4 e2fsprogs; need mkfs.xfs xfsprogs
  need dkms dkms; need make make; need pahole pahole; need depmod kmod; need xz xz-utils; need zstd zstd
  need ip iproute2; need ethtool ethtool; need nft nftables; need setpriv util-linux; need ffmpeg ffmpeg
}

# Clients of the matrix of interoperability.
need_players() {
  need ffmpeg ffmpeg; need ip iproute2; need setpriv util-linux; need openssl openssl; need python3 python3
  need gst-launch-1.0 gstreamer1.0-tools
  for set in base good bad; do need_package gstreamer1.0-plugins-$set; done
  need_package glib-networking # TLS of GStreamer
  need cvlc vlc-bin; need_package vlc-plugin-base
}

# Handlers as eBPF objects.
need_bpf() { need clang clang; need_package libbpf-dev; need_package linux-libc-dev; }

need cc gcc
[ -e /usr/include/stdio.h ] || missing+=(libc6-dev) # gcc only recommends it, and nothing links without
need curl curl
need git git
[ -e /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
for purpose in "$@"; do
  case $purpose in
    run) need ffmpeg ffmpeg ;;
    bench)
      need ip iproute2; need ethtool ethtool; need nft nftables
      # What `wirepath assess relay` compares with.
      need haproxy haproxy; need nginx nginx; need_package libnginx-mod-stream; need socat socat ;;
    clients) need ip iproute2 ;;
    players) need_players ;;
    bpf) need_bpf ;;
    test)
      need_players; need wget wget; need ethtool ethtool; need nft nftables
      need pamcut netpbm
      need haproxy haproxy; need wrk wrk; need nginx nginx; need_package libnginx-mod-stream; need socat socat; need nc netcat-openbsd
      need iperf3 iperf3 # runs under libwirepath-loan.so
      need python3 python3; python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv); need_python=1
      # Ubuntu has a browser only as a snap, which does not run everywhere: its test says that it is skipped.
      grep -q '^ID=ubuntu' /etc/os-release || need chromium chromium
      need_package python3-venv # for the Python package
      need_guests; need_bpf ;;
    vm) need_guests ;;
    debug-kernel)
      need_guests
      # What builds a kernel from its sources.
      need flex flex; need bison bison; need m4 m4; need bc bc; need perl perl; need_package libelf-dev ;;
    *) echo "install.sh: unknown purpose $purpose; known are run, test, players, vm, debug-kernel, bench, clients, bpf" >&2; exit 64 ;;
  esac
done
# Another apt-get, such as that of a new machine's first start, is waited for.
install() { as_root "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends ${missing[*]}"; }
[ ${#missing[@]} = 0 ] || install

if ! have_rust; then
  # Debian 13 and Ubuntu 24.04 package rustup; elsewhere, and without root, its own installer needs no root.
  missing=(rustup)
  if ! command -v rustup >/dev/null && can_be_root && available rustup; then install; fi
  command -v rustup >/dev/null ||
    { installer=$(curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs) &&
      printf '%s' "$installer" | sh -s -- -y --no-modify-path --default-toolchain none --profile minimal; } ||
    { echo "install.sh: rustup could not be downloaded; install it in another way (package rustup) and try again" >&2; exit 69; }
  # Newer versions of rustup install the toolchain of rust-toolchain.toml when asked, older ones when it is first used.
  rustup toolchain install >/dev/null 2>&1 || rustup show >/dev/null
  have_rust || { echo "install.sh: cargo is not the one of rust-toolchain.toml; run: rustup toolchain install" >&2; exit 70; }
fi

# Other readers of Arrow records and another writer of TIFF files, for tests; about 400 MB. Without them they say that
# they are skipped.
have_python() { for module in duckdb tifffile; do compgen -G "target/python/lib/python3*/site-packages/$module" >/dev/null || return; done; }
if [ -n "${need_python:-}" ] && ! have_python; then
  { python3 -m venv target/python && target/python/bin/pip install --quiet --disable-pip-version-check pyarrow pandas duckdb tifffile; } ||
    echo "install.sh: pyarrow, pandas, duckdb and tifffile could not be installed; tests that need them are skipped" >&2
fi
