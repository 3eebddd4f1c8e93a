"""From a decoded call to its answer: handlers run in turns, once for each call, in memory that is shared out."""
