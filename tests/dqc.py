"""Containers for tests: an image of plain 8-bit samples as one layer."""

from dqcodec import png
from dqcodec.container import Container, Layer, Method, sample_checksum


def container(pixels, method: Method, payload: bytes, model_id: bytes = b"", before=(), **fields) -> Container:
    """Of (H, W, C) uint8 pixels; `fields` replace its own."""
    own = {"skeleton": png.plain(pixels, before).skeleton, "checksum": sample_checksum([pixels])} | fields
    return Container(rasters=((Layer(method, payload, model_id),),), **own)


def reshaped(container: Container, height: int, width: int) -> Container:
    """The same, said to be of another size."""
    header = container.skeleton.header._replace(width=width, height=height)
    skeleton = png.Skeleton(header, container.skeleton.parts)
    return Container(None, skeleton, container.split, container.rasters, container.checksum)
