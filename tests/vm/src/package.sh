# package.sh FOLDER KERNEL RELEASE PACKAGE: installs the module's package on this machine as it is, but for its kernels, of which
# it has one, unpacked in KERNEL; leaves the module that DKMS then built in FOLDER, and removes the package again. All that
# is written is written to memory that goes with this process's mounts. Exits with 77 where nothing can be mounted.
set -eu
folder=$1 kernel=$2 release=$3 package=$4
layer=$folder/layer
root=$layer/root
mkdir -p "$layer"
{
	mount -t tmpfs tmpfs "$layer"
	mkdir "$layer/upper" "$layer/work" "$root"
	mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" "$root"
} || exit 77

mount --bind /dev "$root/dev"
mount -t proc proc "$root/proc"
for hidden in lib/modules boot var/lib/dkms tmp; do
	mkdir -p "$root/$hidden"
	mount -t tmpfs tmpfs "$root/$hidden"
done
mkdir -p "$root/mnt/kernel" "$root/lib/modules/$release"
mount --bind "$kernel" "$root/mnt/kernel"
ln -s "/mnt/kernel/usr/src/linux-headers-$release" "$root/lib/modules/$release/build"
cp "$kernel/lib/modules/$release"/modules.* "$root/lib/modules/$release"
cp "$kernel/boot/config-$release" "$root/boot"
cp "$package" "$root/tmp/package.deb"

fail() {
	echo "package.sh: $1" >&2
	find "$root/var/lib/dkms" -name make.log -exec cat {} + >&2
	exit 1
}
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }
modules() { find "$root/lib/modules/$release" -name 'wirepath.ko*'; }

inside dpkg -i /tmp/package.deb || fail "the package cannot be installed"
inside getent group wirepath || fail "there is no group wirepath"
module=$(modules)
[ -f "$module" ] || fail "DKMS has built no module, but: $module"
cp "$module" "$folder"
inside dpkg --purge wirepath-dkms || fail "the package cannot be removed"
[ -z "$(modules)" ] || fail "the module stays when its package goes"
[ -z "$(inside dkms status)" ] || fail "DKMS still knows: $(inside dkms status)"
