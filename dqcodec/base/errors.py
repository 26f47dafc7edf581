"""Every error that dqcodec raises on purpose: a small tree under `DqcodecError`, each with a one-line message."""


class DqcodecError(Exception):
    """Base of all errors of this package; `str()` of it is one line."""

    def __str__(self) -> str:
        return " ".join(super().__str__().split())


class FormatError(DqcodecError):
    """The bytes are no .dqc file, or one of a version that this release does not read."""


class CorruptError(DqcodecError):
    """A file is damaged: a checksum differs, a length runs past the end, a stream does not decode."""


class UnsupportedImageError(DqcodecError):
    """The input is not an image that dqcodec takes: not a PNG, or larger than the limit."""


class VerifyError(DqcodecError):
    """A freshly compressed file did not decode to its input; nothing is written."""


class ModelError(DqcodecError):
    """A model file is malformed or of an unknown version."""


class ParticlesError(DqcodecError):
    """A model cannot code with that many particles."""


class UnknownModelError(DqcodecError):
    """No model at hand has the wanted name or id; the message says which one, and what is at hand."""


class StackUnderflow(DqcodecError):
    """A pop asked for more bits than the stack holds."""


class SymbolError(DqcodecError, ValueError):
    """A symbol is not below its size, or a size is not one that a stack codes: 1 to 2^23."""


class LatentOverflow(DqcodecError):
    """A latent left the range for which exactness is proven; the image needs another method."""


class WorkerError(DqcodecError):
    """The processes or the cluster to work on are not there, are of another version, or were lost."""


# what may go wrong with one file while the others go well
FAILURES = (DqcodecError, OSError, MemoryError)


def one_line(error: BaseException) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join((text or type(error).__name__).split())
