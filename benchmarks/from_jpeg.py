"""Bytes of PNGs whose pixels came out of a JPEG decoder: of the JPEG, of dqcodec without and with the method jpeg, of others.

    python benchmarks/from_jpeg.py FOLDER [--images N] [--qualities Q ...] [--clipped] [--json RESULT.json]

Every image is compressed as JPEG by Pillow at each quality and chroma subsampling and decoded again; these pixels are
coded. The last columns: how many images take the method jpeg, what part of the pixels the recovered JPEG gives exactly, and
seconds of the processor a megapixel to compress and decompress.
"""

import io
import time
from pathlib import Path

import numpy as np
import script
from PIL import Image

import dqcodec
from dqcodec import png
from dqcodec.bench import images
from dqcodec.bench.machine import machine
from dqcodec.bench.peers import JpegXl, WebP
from dqcodec.exact.jpeg import recovery

_QUALITIES = 50, 75, 85, 90, 95
_SUBSAMPLINGS = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}


def main() -> None:
    """The command line, see the module."""
    parser = script.parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=6)
    parser.add_argument("--qualities", type=int, nargs="*", default=_QUALITIES)
    parser.add_argument("--clipped", action="store_true", help="also photographs made brighter, cut out of the JPEG")
    arguments = parser.parse_args()
    files = sorted(file for file in arguments.folder.iterdir() if file.is_file())
    photos = [
        Image.open(file).convert("RGB") for file in files[:: max(1, len(files) // arguments.images)][: arguments.images]
    ]
    where, rows = machine(), []
    for quality in arguments.qualities:
        for name in _SUBSAMPLINGS:
            rows.append(
                {"quality": quality, "subsampling": name, **total([measure(each, quality, name) for each in photos])}
            )
            print(rows[-1], flush=True)
    if arguments.clipped:
        measured = [measure(clipped(photo), 85, "4:2:0", cut=(19, 13)) for photo in photos]
        rows.append({"quality": 85, "subsampling": "4:2:0, clipped and cut", **total(measured)})
        print(rows[-1], flush=True)
    script.publish({"machine": where, "folder": arguments.folder.name, "rows": rows}, arguments.json)


def total(measured: list[dict[str, float]]) -> dict[str, float]:
    """The sums of the figures of some photographs."""
    row = {key: sum(each[key] for each in measured) for key in measured[0]}
    return {"images": len(measured), **row, "recovered": row["recovered"] / row["pixels"]}


def clipped(photo: Image.Image) -> Image.Image:
    """A photograph that is brighter, so that many samples are 255."""
    return photo.point([min(255, 3 * value // 2) for value in range(256)] * 3)


def measure(photo: Image.Image, quality: int, subsampling: str, cut: tuple[int, int] = (0, 0)) -> dict[str, float]:
    """The figures of one photograph at a quality and a subsampling, without some rows and columns at the top left."""
    stream, others = io.BytesIO(), {"jpegxl": JpegXl(9), "webp": WebP()}
    others["jpegxl"].prepare(1)
    photo.save(stream, "JPEG", quality=quality, subsampling=_SUBSAMPLINGS[subsampling])
    pixels = np.ascontiguousarray(np.asarray(Image.open(stream))[cut[0] :, cut[1] :])
    source = images.of(png.write(png.plain(pixels)))
    start = time.process_time()
    data = dqcodec.compress(pixels)
    middle = time.process_time()
    back = dqcodec.decompress(data)
    end = time.process_time()
    if not np.array_equal(back, pixels):
        raise SystemExit("an image does not come back")
    may_be, recovery.may_be_decoded = recovery.may_be_decoded, lambda _: False
    without = dqcodec.compress(pixels)
    recovery.may_be_decoded = may_be
    return {
        "pixels": pixels.shape[0] * pixels.shape[1],
        "jpeg": len(stream.getvalue()),
        "without": len(without),
        "with": len(data),
        **{name: len(codec.encode(source).data) for name, codec in others.items()},
        "taken": int(dqcodec.info(data).method == "jpeg"),
        "recovered": int((recovery.recover(pixels).pixels(*pixels.shape[:2]) == pixels).all(-1).sum()),
        "compress_seconds": middle - start,
        "decompress_seconds": end - middle,
    }


if __name__ == "__main__":
    main()
