"""One exception type per kind of trouble; each message is one sentence a user can act on."""


class KernelsError(Exception):
    """The base of every error this package raises on purpose."""


class ParameterError(KernelsError, ValueError):
    """A size, an option or an input array is not one the kernel can run with."""


class BackendError(KernelsError, RuntimeError):
    """The kernel could not be compiled or run here: no GPU, no compiler, a failed launch."""


class TraceError(KernelsError, ValueError):
    """A file is not a trace this version can read, or a run left a trace that contradicts its declaration."""
