"""For users' tests too: conformance suites for providers, scripted peers, captures."""
