"""Unix sockets: paths, peers, descriptors, and the folder of a socket. No protocol of Egress is here."""
