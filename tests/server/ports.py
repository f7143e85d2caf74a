"""Free ports for servers that tests start."""

import socket

kept = []


def free_port():
    """Returns a port of 127.0.0.1 where nobody listens. The bound socket keeps it from other programs as long as this process runs.
    A server that sets SO_REUSEADDR can listen there."""
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    kept.append(place)
    return place.getsockname()[1]
