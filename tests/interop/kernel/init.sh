#!/usr/bin/dash
# The first process of a guest: a network, an iWARP device on it, and agents that run what the host asks for.
# /etc/guest is the host's: ADDRESS and NAME of this guest.
export PATH=/usr/sbin:/usr/bin:/applets HOME=/root
/usr/bin/busybox --install -s /applets
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs run /run
mount -t tmpfs -o size=75% srv /srv
ln -s /proc/mounts /etc/mtab
echo "guest: started"
. /etc/guest
hostname "$NAME"
# A task that waits is reported after 120 s, in which a guest on a busy machine may do the work of 20 s.
echo 600 >/proc/sys/kernel/hung_task_timeout_secs

for module in virtio_pci virtio_net virtio_rng virtio_console virtio_blk ext4 crc32c_generic siw rpcrdma ib_uverbs rdma_ucm nfsv3; do
    modprobe "$module" || echo "guest: no module $module"
done
ip link set lo up
ip address add "$ADDRESS/24" dev eth0
ip link set eth0 up
rdma link add siw0 type siw netdev eth0 || echo "guest: no RDMA device"

# A disk has the file system of a whole Debian, whose first process is systemd. What the host laid into the guest goes along.
if [ -b /dev/vda ]; then
    mkdir /debian
    mount /dev/vda /debian
    cp -r /data /debian/
    for tree in dev proc sys run; do
        mount -o move "/$tree" "/debian/$tree"
    done
    exec switch_root /debian /sbin/init
fi

/agent.sh &

# For whoever types: busybox's shell edits lines.
while :; do
    setsid sh -c 'exec </dev/ttyS1 >/dev/ttyS1 2>&1; stty sane; exec busybox sh -i'
    sleep 1
done
