"""The client, narrowed to the queues that one caller may see; what is elsewhere is not there for them."""
