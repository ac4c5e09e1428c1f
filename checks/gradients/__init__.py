"""Whether replicas train as one."""
