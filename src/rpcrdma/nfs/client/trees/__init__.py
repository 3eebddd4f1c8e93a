"""Whole files and trees: copied in both directions, walked and removed, in bounded memory."""
