"""The errors that dqcodec raises on purpose. All are DqcodecErrors, and their messages are one line."""


class DqcodecError(Exception):
    """The base of all errors of this package; its `str()` is one line."""

    def __str__(self) -> str:
        """The message, without line breaks."""
        return " ".join(super().__str__().split())


class FormatError(DqcodecError):
    """The bytes are not a .dqc file, or are of a version that this release does not read."""


class CorruptError(DqcodecError):
    """A file is damaged: a checksum differs, a length runs past the end, or a stream does not decode."""


class UnsupportedImageError(DqcodecError):
    """dqcodec does not accept the input as an image: it is not a PNG, for example, or is larger than the limit."""


class RegionError(DqcodecError, ValueError):
    """A region has no pixels, or does not lie within the image."""


class VerifyError(DqcodecError):
    """A compressed file does not decode to its input; nothing is written."""


class ModelError(DqcodecError):
    """A model file is malformed or of an unknown version."""


class UnknownModelError(DqcodecError):
    """No model at hand has this name or id. The message lists the models at hand."""


class StackUnderflow(DqcodecError):
    """A pop asked for more bits than the stack holds."""


class SymbolError(DqcodecError, ValueError):
    """A symbol is not below its size, or a size is outside the range of a stack, 1 to 2^23."""


class LatentOverflow(DqcodecError):
    """A latent leaves the range for which exactness is proven; the image needs another method."""


class WorkerError(DqcodecError):
    """The worker processes or the cluster cannot be reached, have another version, or were lost."""


# errors of one file; a command then goes on with the next file
FAILURES = (DqcodecError, OSError, MemoryError)


def one_line(error: BaseException) -> str:
    """The message of an error on one line; the error's type if there is no message."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join((text or type(error).__name__).split())
