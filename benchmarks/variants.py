"""Make variants of photographs: what programs make of them, from scaling to sensor mosaics. A codec tuned to a few kinds of PNG shows it here.

    python benchmarks/variants.py FOLDER -o OUT

Each variant is made of another photograph of the folder, its central square of at most 256 x 256.
"""

import argparse
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from PIL.Image import Resampling

_SIDE = 256
_RANDOM = np.random.default_rng(0)


def main() -> None:
    """The command line, see the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    paths = sorted(arguments.folder.glob("*.png"))
    for number, (name, variant) in enumerate(VARIANTS.items()):
        with Image.open(paths[number % len(paths)]) as image:
            side = min(_SIDE, *image.size)
            photo = ImageOps.fit(image.convert("RGB"), (side, side), Resampling.LANCZOS)
        variant(photo).save(arguments.output / f"{name}.png", optimize=True)


def enlarged(by: float, how: Resampling) -> Callable[[Image.Image], Image.Image]:
    """Scale down, then up by this factor."""

    def variant(photo: Image.Image) -> Image.Image:
        small = photo.resize([round(side / by) for side in photo.size], Resampling.LANCZOS)
        return small.resize(photo.size, how)

    return variant


def recompressed(
    format: str, quality: int, after: Callable[[Image.Image], Image.Image]
) -> Callable[[Image.Image], Image.Image]:
    """Encode with losses, decode, and apply `after`."""

    def variant(photo: Image.Image) -> Image.Image:
        file = io.BytesIO()
        photo.save(file, format, quality=quality)
        with Image.open(file) as decoded:
            return after(decoded.copy())

    return variant


def by_samples(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Image.Image], Image.Image]:
    """Apply a function of samples, float (H, W, 3) in [0, 255]; its result is rounded to 8 bits."""
    return lambda photo: Image.fromarray(np.rint(change(np.asarray(photo, float)).clip(0, 255)).astype(np.uint8))


def deep(bits: int, unit: int, noise: float) -> Callable[[Image.Image], Image.Image]:
    """A blurred gray photograph with noise, of this many bits, in 16-bit samples that are multiples of `unit`."""

    def variant(photo: Image.Image) -> Image.Image:
        gray = np.asarray(photo.convert("L").filter(ImageFilter.GaussianBlur(1)), float) * 2 ** (bits - 8)
        noisy = (gray + _RANDOM.normal(0, noise, gray.shape)).clip(0, 2**bits - 1)
        return Image.fromarray(noisy.astype(np.uint16) * np.uint16(unit))

    return variant


def mapped(colours: str, blur: float = 0) -> Callable[[Image.Image], Image.Image]:
    """Gray in the colours of a map of matplotlib, as plots show data; blurred data are real numbers with noise."""

    def variant(photo: Image.Image) -> Image.Image:
        data = np.asarray(photo.convert("L"), float)
        if blur:
            data = np.asarray(photo.convert("L").filter(ImageFilter.GaussianBlur(blur)), float)
            data += _RANDOM.normal(0, 1, data.shape)
        data = (data - data.min()) / np.ptp(data)
        return Image.fromarray(colormaps[colours](data, bytes=True)[..., :3])

    return variant


def mosaic(samples: np.ndarray) -> np.ndarray:
    """One colour at each pixel of (H, W, 3), in the pattern of Bayer: (H, W)."""
    out = samples[..., 1].copy()
    out[::2, ::2], out[1::2, 1::2] = samples[::2, ::2, 0], samples[1::2, 1::2, 2]
    return out


def halved_chroma(photo: Image.Image) -> Image.Image:
    """Chroma of half the resolution, repeated, as in 4:2:0 video."""
    y, *chroma = photo.convert("YCbCr").split()
    coarse = [plane.reduce(2).resize(photo.size, Resampling.NEAREST) for plane in chroma]
    return Image.merge("YCbCr", (y, *coarse)).convert("RGB")


def with_alpha(alpha: Callable[[tuple[int, int]], Image.Image]) -> Callable[[Image.Image], Image.Image]:
    """With an alpha channel, a function of the size."""

    def variant(photo: Image.Image) -> Image.Image:
        out = photo.convert("RGBA")
        out.putalpha(alpha(photo.size))
        return out

    return variant


def ellipse(size: tuple[int, int]) -> Image.Image:
    """A soft ellipse, as a cut-out object has."""
    mask = Image.new("L", size)
    ImageDraw.Draw(mask).ellipse((30, 30, size[0] - 30, size[1] - 50), fill=255)
    return mask.filter(ImageFilter.GaussianBlur(3))


def noise_mask(size: tuple[int, int]) -> Image.Image:
    """Random pixels, opaque or not."""
    return Image.fromarray(_RANDOM.integers(0, 2, size[::-1], dtype=np.uint8) * np.uint8(255))


def captioned(photo: Image.Image) -> Image.Image:
    """Lines of text over the photograph."""
    out = photo.copy()
    for line, top in enumerate(range(20, photo.height - 20, 16)):
        ImageDraw.Draw(out).text(
            (10, top),
            f"line {line} of a caption in {'black' if line % 2 else 'white'}",
            "black" if line % 2 else "white",
        )
    return out


def page(photo: Image.Image) -> Image.Image:
    """A white page with the photograph and a few lines of text."""
    out = Image.new("RGB", photo.size, "white")
    out.paste(photo.reduce(2), (photo.width // 4, 20))
    for line, top in enumerate(range(30 + photo.height // 2, photo.height - 20, 14)):
        ImageDraw.Draw(out).text((16, top), f"{line}. A sentence below a photograph.", "black")
    return out


def contact_sheet(photo: Image.Image) -> Image.Image:
    """Sixteen small crops beside each other."""
    out, side = Image.new("RGB", photo.size), photo.width // 4
    for place in range(16):
        x, y = place % 4 * side, place // 4 * side
        out.paste(ImageOps.fit(photo, (side, side), centering=(place % 5 / 4, place % 3 / 2)), (x, y))
    return out


def normals(photo: Image.Image) -> Image.Image:
    """A normal map of the photograph's luma as heights."""
    height = np.asarray(photo.convert("L").filter(ImageFilter.GaussianBlur(1)), float)
    down, right = np.gradient(height)
    normal = np.stack([-right, -down, np.full_like(height, 8)], -1)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    return Image.fromarray(np.rint((normal + 1) * 127.5).astype(np.uint8))


VARIANTS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "enlarged_2_nearest": enlarged(2, Resampling.NEAREST),
    "enlarged_3_nearest": enlarged(3, Resampling.NEAREST),
    "enlarged_2_bilinear": enlarged(2, Resampling.BILINEAR),
    "enlarged_3_bicubic": enlarged(3, Resampling.BICUBIC),
    "enlarged_1.5_bicubic": enlarged(1.5, Resampling.BICUBIC),
    "turned": lambda photo: photo.rotate(7, Resampling.BICUBIC),
    "blurred_2": lambda photo: photo.filter(ImageFilter.GaussianBlur(2)),
    "blurred_8": lambda photo: photo.filter(ImageFilter.GaussianBlur(8)),
    "sharpened": lambda photo: photo.filter(ImageFilter.UnsharpMask(2, 200, 0)),
    "median": lambda photo: photo.filter(ImageFilter.MedianFilter(5)),
    "contrast": lambda photo: ImageEnhance.Contrast(photo).enhance(1.7),
    "dark": lambda photo: ImageEnhance.Brightness(photo).enhance(0.3),
    "equalised": ImageOps.equalize,
    "solarised": ImageOps.solarize,
    "posterised_4": lambda photo: ImageOps.posterize(photo, 4),
    "posterised_6": lambda photo: ImageOps.posterize(photo, 6),
    "gamma": by_samples(lambda rgb: 255 * (rgb / 255) ** 0.45),
    "limited_range": by_samples(lambda rgb: 16 + rgb * 219 / 255),
    "rgb565": by_samples(lambda rgb: rgb // [8, 4, 8] * 255 // [31, 63, 31]),
    "palette_256": lambda photo: photo.quantize(256),
    "palette_64_plain": lambda photo: photo.quantize(64, dither=Image.Dither.NONE),
    "palette_16": lambda photo: photo.quantize(16),
    "web_palette": lambda photo: photo.convert("P"),
    "black_and_white": lambda photo: photo.convert("1"),
    "gray": lambda photo: photo.convert("L"),
    "gray_in_rgb": lambda photo: photo.convert("L").convert("RGB"),
    "gray_4_bit": by_samples(lambda rgb: rgb.mean(-1) // 16 * 17),
    "gray_alpha": lambda photo: photo.convert("LA"),
    "sepia": lambda photo: ImageOps.colorize(photo.convert("L"), "#220000", "#ffffdd"),
    "map_viridis": mapped("viridis"),
    "map_jet": mapped("jet"),
    "map_inferno_of_real_numbers": mapped("inferno", blur=3),
    "gray_8_in_16": lambda photo: Image.fromarray(np.asarray(photo.convert("L"), np.uint16) * np.uint16(257)),
    "gray_12_in_16": deep(12, 1, noise=6),
    "gray_12_in_16_high": deep(12, 16, noise=6),
    "gray_16": deep(16, 1, noise=100),
    "mosaic_8": by_samples(mosaic),
    "mosaic_14_in_16": lambda photo: Image.fromarray(
        mosaic(np.asarray(photo, np.uint16) * np.uint16(64) + np.uint16(17))
    ),
    "halved_chroma": halved_chroma,
    "ycbcr_as_rgb": lambda photo: Image.merge("RGB", photo.convert("YCbCr").split()),
    "hsv_as_rgb": lambda photo: Image.merge("RGB", photo.convert("HSV").split()),
    "bgr": lambda photo: Image.merge("RGB", photo.split()[::-1]),
    "alpha_ellipse": with_alpha(ellipse),
    "alpha_gradient": with_alpha(lambda size: Image.linear_gradient("L").resize(size)),
    "alpha_constant": with_alpha(lambda size: Image.new("L", size, 128)),
    "alpha_noise": with_alpha(noise_mask),
    "captioned": captioned,
    "page": page,
    "contact_sheet": contact_sheet,
    "bordered": lambda photo: ImageOps.expand(photo.reduce(2), 40, (20, 30, 40)),
    "normal_map": normals,
    "jpeg_60_halved": recompressed("JPEG", 60, lambda image: image.reduce(2)),
    "jpeg_85_cropped": recompressed("JPEG", 85, lambda image: image.crop((13, 9, 213, 209))),
    "jpeg_95_cropped": recompressed("JPEG", 95, lambda image: image.crop((13, 9, 213, 209))),
    "jpeg_80_gray": recompressed("JPEG", 80, lambda image: image.convert("L")),
    "jpeg_80_rgba": recompressed("JPEG", 80, lambda image: image.convert("RGBA")),
    "jpeg_80_brighter": recompressed("JPEG", 80, lambda image: ImageEnhance.Brightness(image).enhance(1.1)),
    "jpeg_80_jpeg_90": recompressed("JPEG", 80, recompressed("JPEG", 90, lambda image: image)),
    "webp_70": recompressed("WEBP", 70, lambda image: image.convert("RGB")),
}


if __name__ == "__main__":
    main()
