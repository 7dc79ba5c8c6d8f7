"""What listens to a running kernel: the header with HOLD and SNAPSHOT, and what puts a call before each access."""
