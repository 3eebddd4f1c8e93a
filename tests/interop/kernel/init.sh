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

for module in virtio_pci virtio_net virtio_rng virtio_console crc32c_generic siw rpcrdma ib_uverbs rdma_ucm nfsv3; do
    modprobe "$module" || echo "guest: no module $module"
done
ip link set lo up
ip address add "$ADDRESS/24" dev eth0
ip link set eth0 up
rdma link add siw0 type siw netdev eth0 || echo "guest: no RDMA device"

# One job at a time on each port: a line of seconds and the script in base64; answered by the status, the output in
# base64, and a dot.
agent() {
    while :; do
        exec 3<>"/dev/$1"
        while read -r seconds script <&3; do
            echo "$script" | base64 -d >"/run/$1.job"
            timeout -k 5 "$seconds" /usr/bin/sh "/run/$1.job" </dev/null >"/run/$1.out" 2>&1
            status=$?
            { echo "$status"; base64 "/run/$1.out"; echo .; } >&3
        done
        exec 3>&-
        usleep 100000
    done
}
for port in /sys/class/virtio-ports/vport*; do
    agent "${port##*/}" &
done
echo "guest: ready"

# For whoever types: busybox's shell edits lines.
while :; do
    setsid sh -c 'exec </dev/ttyS1 >/dev/ttyS1 2>&1; stty sane; exec busybox sh -i'
    sleep 1
done
