"""The sources of the four kernels as plain CUDA, each in the notation of its paper."""
