#!/usr/bin/env bash
# Makes wirepath_VERSION_ARCHITECTURE.deb of programs that are built: scripts/deb.sh [PROGRAMS [FOLDER]], by default of
# target/release in target/deb. Standard output has the name of the package.
set -euo pipefail
umask 022 # folders of the package are for everyone
cd "$(dirname "$0")/.."
built=${1:-${CARGO_TARGET_DIR:-target}/release}
folder=${2:-${CARGO_TARGET_DIR:-target}/deb}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/debian/wirepath # where dpkg-shlibdeps expects it
architecture=$(dpkg --print-architecture)
# The number of commits orders packages between two versions.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
if commit=$(git rev-parse --short=12 HEAD 2>/dev/null); then
  version=$version+git$(git rev-list --count HEAD).$commit
fi

install -s -D -m 755 -t "$root/usr/bin" "$built"/wirepath "$built"/wirepath-images "$built"/wirepath-records
install -D -m 644 -t "$root/etc/wirepath" packaging/wirepath.toml
mkdir -p "$root/usr/lib/systemd/system" "$root/usr/share/doc/wirepath"
sed 's|/usr/local/bin/|/usr/bin/|' packaging/wirepath.service >"$root/usr/lib/systemd/system/wirepath.service"
install -m 644 -t "$root/usr/lib/systemd/system" packaging/wirepath-rtsp.socket packaging/wirepath-http.socket
# Documents link to each other by these places.
install -m 644 -t "$root/usr/share/doc/wirepath" README.md CHANGELOG.md packaging/relay.toml
install -D -m 644 -t "$root/usr/share/doc/wirepath/docs" docs/*.md
install -m 644 packaging/debian/copyright "$root/usr/share/doc/wirepath/copyright"
scripts/pages.sh "$built" "$root/usr/share" vendor-completions
gzip -9 -n "$root"/usr/share/man/man1/*.1

mkdir "$root/DEBIAN"
# Libraries by the versions of symbols that the programs were linked with.
if command -v dpkg-shlibdeps >/dev/null; then
  touch "$work/debian/control"
  needed=$(cd "$work" && dpkg-shlibdeps -O debian/wirepath/usr/bin/* | sed -n 's/^shlibs:Depends=//p')
else
  needed="libc6 (>= $(ldd --version | sed -n '1s/.* //p')), libgcc-s1"
fi
cat >"$root/DEBIAN/control" <<EOF
Package: wirepath
Version: $version
Architecture: $architecture
Maintainer: The Wirepath developers <wirepath@localhost>
Depends: $needed, adduser
Section: net
Priority: optional
Installed-Size: $(du -k -s "$root" | cut -f1)
Description: server of stored media over RTSP/RTP and HTTP, and relay of streams
 Wirepath serves stored media to many clients, relays streams of bytes and
 datagrams, and measures what each data path costs on this machine, so that it
 sends by the one that takes the least processor time.
EOF
echo /etc/wirepath/wirepath.toml >"$root/DEBIAN/conffiles"
install -m 755 -t "$root/DEBIAN" packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm

mkdir -p "$folder"
package=$folder/wirepath_${version}_$architecture.deb
# The folder has one package, so that wirepath_*.deb names it. It is renamed when it is whole.
dpkg-deb --root-owner-group -Zzstd --build "$root" "$package.part" >/dev/null
rm -f "$folder"/wirepath_*_"$architecture".deb
mv "$package.part" "$package"
echo "$package"
