"""What is measured on a GPU of the tracer itself: what it costs, and whether its counts are the hardware's."""
