"""The kernel's own NFS server, in a guest."""

from __future__ import annotations

from collections.abc import Callable

from guest import Guest

__all__ = ["EXPORT", "PORT", "start_kernel_server", "stop_kernel_server"]

PORT = 20049
"""NFS over RDMA. MOUNT is offered over TCP at port 20048, NFS over TCP at 2049, as everywhere."""
EXPORT = "/srv"
"""The exported directory, a tmpfs. For NFSv3 its path is /srv, for NFSv4 it is the root."""

_START = """
mkdir -p /run/rpcbind /var/lib/nfs/v4recovery
touch /var/lib/nfs/etab /var/lib/nfs/rmtab /var/lib/nfs/state
modprobe nfsd
pidof rpcbind >/dev/null || rpcbind -w
grep -q /proc/fs/nfsd /proc/mounts || mount -t nfsd nfsd /proc/fs/nfsd
echo "/srv *(rw,fsid=0,insecure,no_root_squash,no_subtree_check,sync)" >/etc/exports
exportfs -ra
pidof rpc.mountd >/dev/null || rpc.mountd -p 20048
cd /proc/fs/nfsd
# Versions cannot be set while it runs.
[ "$(cat threads)" = 0 ] || echo 0 >threads
echo "+3 +4 +4.1 +4.2" >versions
# Clients are not to wait for a grace period; a lease lasts for as long as a check may be busy with something else.
echo 90 >nfsv4leasetime
echo 10 >nfsv4gracetime
# Without this setting nfsd accepts smaller READs and WRITEs in a guest with as little memory as this one.
echo 1048576 >max_block_size
# nfsd gives no delegations while the lock manager waits for its clients: by default 50 s; 3 is the least.
echo 3 >/proc/sys/fs/nfs/nlm_timeout
echo 3 >/proc/sys/fs/nfs/nlm_grace_period
echo 4 >threads
RDMA
echo Y >v4_end_grace
cat portlist
"""
_STOP = "echo 0 >/proc/fs/nfsd/threads"


def start_kernel_server(guest: Guest, *, rdma: bool = True) -> None:
    """Starts nfsd with NFSv3, 4.1 and 4.2 over RDMA, if the guest has a device, and TCP; anew if it runs."""
    guest.run("set -e\n" + _START.replace("RDMA", 'echo "rdma 20049" >portlist' if rdma else ""))


def stop_kernel_server(guest: Guest, meanwhile: Callable[[], object] = lambda: None) -> None:
    """Ends nfsd and its connections; the exported files stay.

    `meanwhile` is called once nfsd has been told, whose threads wait for the RDMA Reads that clients have not answered.
    """
    stopping = guest.start(_STOP)
    meanwhile()
    stopping.wait()
