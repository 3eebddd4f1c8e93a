"""Support for users' own tests: the conformance suite for providers, and endpoints joined in memory."""
