"""The way between the hosts: names, interfaces, ports, links."""
