"""Files that are open: reading ahead, writing behind, and what of it is known to last."""
