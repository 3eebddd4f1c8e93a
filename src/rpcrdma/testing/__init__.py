"""For tests of users' own code: a conformance suite for providers, and endpoints joined in memory."""
