"""ONC RPC version 2 (RFC 5531): messages, authentication, record marking, programs and their dispatch."""
