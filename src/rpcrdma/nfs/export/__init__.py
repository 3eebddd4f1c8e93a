"""Exported trees of files, below every version of NFS: `tree` is the interface to directories and to memory."""
