dd if=/dev/urandom of=/disk/f bs=2M count=1 2>/dev/null; dd if=/disk/f of=/xfs/f bs=2M 2>/dev/null
sync; echo 3 >/proc/sys/vm/drop_caches; cat /disk/f /xfs/f /xfs/f >/dev/null
ip link add d0 type dummy; ip addr add 10.9.0.1/24 dev d0; ip link set d0 up
m() { for fs in disk xfs; do for p in 1316 1460; do for w in "krtpsendfile, trains" wire_sendfile; do echo "$1 $fs $p $(/files/measure-$p 10.9.0.2 /$fs/f 2 "$w")"; done; done
echo "$1 $fs burst 7, 1460 $(/files/burst-1460 10.9.0.2 /$fs/f 2 "krtpsendfile, trains")"; done; }
m on
ethtool -K d0 tx-scatter-gather-fraglist off; m fraglist-off
