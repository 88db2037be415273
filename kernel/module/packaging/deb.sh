#!/bin/sh
# deb.sh VERSION: packs the module's sources for DKMS into ./wirepath-dkms_VERSION_all.deb
set -eu
umask 022 # what is packed is for everybody to read
version=$1
cd "$(dirname "$0")/.."
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
source=$root/usr/src/wirepath-$version

install -d "$source/uapi" "$root/DEBIAN" "$root/usr/include/wirepath" "$root/usr/lib/udev/rules.d" \
	"$root/usr/share/doc/wirepath-dkms"
install -m 644 ./*.c ./*.h Kbuild "$source"
install -m 644 uapi/*.h "$source/uapi"
install -m 644 uapi/*.h "$root/usr/include/wirepath"
install -m 644 packaging/60-wirepath.rules "$root/usr/lib/udev/rules.d"
install -m 644 Documentation/wirepath.rst "$root/usr/share/doc/wirepath-dkms"
install -m 644 LICENSE-GPL-2.0 "$root/usr/share/doc/wirepath-dkms/copyright"
fill() { sed "s/@VERSION@/$version/" "packaging/$1" > "$2"; }
fill dkms.conf "$source/dkms.conf"
fill control "$root/DEBIAN/control"
fill postinst "$root/DEBIAN/postinst"
fill prerm "$root/DEBIAN/prerm"
chmod 755 "$root" "$root/DEBIAN/postinst" "$root/DEBIAN/prerm"
dpkg-deb --root-owner-group --build "$root" "wirepath-dkms_${version}_all.deb"
