"""The method autoregressive: layers by an autoregressive model.

Each layer is cut from its top left into tiles of the model's size. A tile is coded without the pixels of the others.
Tiles are taken layer after layer, row by row, and put on stacks. A stack has at most 2^20 pixels, which bounds the
memory. While a stack is coded, the model's last layers learn; each stack starts with the trained weights.

The payload has for each stack: varint s; varint, the length of the stack in bytes; the stack, 32-bit words. The stack's
seed is s zero bytes, which the first pops borrow.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, StackUnderflow, SymbolError
from dqcodec.base.reader import Reader
from dqcodec.base.threads import map_in_threads, single_thread
from dqcodec.base.varint import write_varint
from dqcodec.exact.autoregressive.program import AutoregressiveProgram, Slots
from dqcodec.exact.boxes import Box, Window, area, cut, inside, overlap, part, sides, whole
from dqcodec.frozen.autoregressive import MAX_STACK_PIXELS
from dqcodec.methods.payload import MALFORMED, ModelReport, Payload


def encode(layers: Sequence[np.ndarray], program: AutoregressiveProgram) -> Payload:
    """The payload of layers (H, W, C) uint8. C and the bits of samples are those of the program."""
    of_stacks, layer_bits = list(stacks([layer.shape[:2] for layer in layers], program)), np.zeros(len(layers))

    def code(boxes: Sequence[Box]) -> tuple[np.ndarray, int, bytes]:
        slots = program.slots([part(layers, box) for box in boxes])
        return slots.tile_bits, *_push(slots, program)

    with single_thread():
        coded = map_in_threads(code, of_stacks, [sum(map(area, boxes)) for boxes in of_stacks])
    for boxes, (tile_bits, *_) in zip(of_stacks, coded):
        np.add.at(layer_bits, [number for number, *_ in boxes], tile_bits)
    payload = b"".join(write_varint(seed_bytes) + write_varint(len(stack)) + stack for _, seed_bytes, stack in coded)
    seed_bits = 8 * sum(seed_bytes for _, seed_bytes, _ in coded)
    stack_bits = 8 * sum(len(stack) for *_, stack in coded)
    report = ModelReport(
        layer_bits=tuple(layer_bits.tolist()),
        seed_bits=seed_bits,
        initial_bits=float(seed_bits + 8 * len(payload) - stack_bits),
        grid_bits=stack_bits - seed_bits - float(layer_bits.sum()),
    )
    return Payload(payload, report=report)


def decode(payload: bytes, shapes: Sequence[tuple[int, int, int]], program: AutoregressiveProgram) -> list[np.ndarray]:
    """The layers (H, W, C) uint8 of a payload.

    Raises CorruptError: the payload is damaged, or was not made by this program.
    """
    return decode_windows(payload, shapes, list(map(whole, shapes)), program)


def decode_windows(
    payload: bytes,
    shapes: Sequence[tuple[int, int, int]],
    windows: Sequence[Window | None],
    program: AutoregressiveProgram,
) -> list[np.ndarray | None]:
    """The pixels (H, W, C) uint8 in a window of each layer; None for a layer without a window.

    Only stacks with some of these pixels are decoded, each up to the last front with one.

    Raises CorruptError: the payload is damaged, or was not made by this program.
    """
    layers = [window and np.empty((*sides(window), shape[2]), np.uint8) for shape, window in zip(shapes, windows)]
    reader, wanted = Reader(payload, error=MALFORMED), []
    for boxes in stacks([shape[:2] for shape in shapes], program):
        seed_bytes, stack = reader.varint(), reader.take(reader.varint())
        shared = [overlap(place, windows[number]) for number, *place in boxes]
        if any(shared):
            wanted.append((boxes, shared, stack, seed_bytes))
    if reader.rest():
        raise CorruptError(MALFORMED)

    def pop(stack: tuple[list[Box], list[Window | None], bytes, int]) -> None:
        boxes, shared, data, seed_bytes = stack
        tiles = _pop(boxes, shared, data, seed_bytes, program)
        for (number, *place), pixels, tile in zip(boxes, shared, tiles):
            if pixels:
                layers[number][inside(pixels, windows[number])] = tile[inside(pixels, place)]

    with single_thread():
        map_in_threads(pop, wanted, [sum(map(area, boxes)) for boxes, *_ in wanted])
    return layers


def code_lengths(layers: Sequence[np.ndarray], program: AutoregressiveProgram) -> list[np.ndarray]:
    """-log2 P of each sample of layers that are coded together, float32 (H, W, C) each."""
    lengths = [np.empty(layer.shape, np.float32) for layer in layers]
    with single_thread():
        for boxes in stacks([layer.shape[:2] for layer in layers], program):
            for box, bits in zip(boxes, program.slots([part(layers, box) for box in boxes]).sample_bits()):
                part(lengths, box)[:] = bits
    return lengths


def stacks(shapes: Sequence[tuple[int, int]], program: AutoregressiveProgram) -> Iterator[list[Box]]:
    """The tiles of each stack, for layers of these sizes (height, width). A part of the format."""
    tiles, pixels = [], 0
    for number, shape in enumerate(shapes):
        rows, columns = program.tile
        for box in cut(number, shape, (max(1, min(rows, MAX_STACK_PIXELS // columns)), columns)):
            if tiles and pixels + area(box) > MAX_STACK_PIXELS:
                yield tiles
                tiles, pixels = [], 0
            tiles.append(box)
            pixels += area(box)
    yield tiles


def _push(slots: Slots, program: AutoregressiveProgram) -> tuple[int, bytes]:
    """(length of the seed in bytes, the stack as bytes). The seed grows until the first pops can borrow it."""
    seed_bytes = 0
    while True:
        stack = Stack(bytes(seed_bytes))
        try:
            program.push(stack, slots)
            return seed_bytes, stack.to_bytes()
        except StackUnderflow:
            seed_bytes += max(4, seed_bytes // 8 * 4)


def _pop(
    boxes: Sequence[Box],
    shared: Sequence[Window | None],
    data: bytes,
    seed_bytes: int,
    program: AutoregressiveProgram,
) -> list[np.ndarray]:
    """The tiles (H, W, C) of a stack; only the pixels that a window shares are decoded. Raises CorruptError."""
    stack = Stack.from_bytes(data)
    wanted = [pixels and inside(pixels, place) for pixels, (_, *place) in zip(shared, boxes)]
    try:
        tiles, is_end = program.pop_windows(stack, list(map(sides, boxes)), wanted)
    except (StackUnderflow, SymbolError) as error:
        raise CorruptError(f"the bit stack is damaged ({error})") from error
    if is_end and any(stack.seed(seed_bytes)):
        raise CorruptError("the bit stack does not end at its seed")
    return tiles
