"""Parts that the tests of several rooms share: peers made of octets, captures, and small programs to call."""
