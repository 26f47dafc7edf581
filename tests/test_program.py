import numpy as np
import programs
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import KINDS, noise_stack
from safetensors.numpy import save

from dqcodec.ans.logarithms import ONE
from dqcodec.ans.stack import Stack
from dqcodec.base.errors import CorruptError, DqcodecError, LatentOverflow, ModelError, StackUnderflow
from dqcodec.exact import generating
from dqcodec.exact.flow.program import FlowProgram
from dqcodec.exact.program import load_program

few = settings(max_examples=5)
every_kind = pytest.mark.parametrize("kind", KINDS)
every_model = pytest.mark.parametrize("channels, levels", [(3, 1), (1, 2)])


def assert_round_trip(program: FlowProgram, x: np.ndarray, stack: Stack) -> None:
    before = stack.to_bytes()
    program.codec.push(stack, x)
    assert np.array_equal(program.codec.pop(stack, *x.shape[:3]), x)
    assert stack.to_bytes() == before


@every_kind
@every_model
@few
@given(st.integers(0, 999), st.integers(1, 4), st.sampled_from([(4, 4), (8, 8), (4, 12), (16, 8)]), st.booleans())
def test_pop_undoes_push(kind, channels, levels, seed, batch, sides, noisy):
    rng, shape = np.random.default_rng(seed), (batch, *sides, channels)
    x = rng.integers(0, 256, shape) if noisy else programs.smooth(rng, *shape)
    assert_round_trip(programs.program(kind, channels, levels), x, noise_stack(seed))


@every_kind
@every_model
@pytest.mark.parametrize("name", programs.odd_tiles())
def test_any_tile_codes(kind, channels, levels, name):
    assert_round_trip(programs.program(kind, channels, levels), programs.odd_tiles(channels)[name], noise_stack())


@every_kind
def test_tiles_pushed_one_after_the_other_are_popped_in_reverse(kind):
    program, stack = programs.program(kind), noise_stack()
    before = stack.to_bytes()
    tiles = [programs.smooth(np.random.default_rng(i), 1 + i, 8, 8) for i in range(3)]
    for x in tiles:
        program.codec.push(stack, x)
    for x in reversed(tiles):
        assert np.array_equal(program.codec.pop(stack, *x.shape[:3]), x)
    assert stack.to_bytes() == before


@every_kind
@every_model
def test_the_coded_bits_are_those_that_push_reports(kind, channels, levels):
    program, stack = programs.program(kind, channels, levels), noise_stack()
    x = programs.smooth(np.random.default_rng(7), 16, 8, 8, channels)
    before = stack.bits
    ideal_bits = program.codec.push(stack, x).sum()
    assert abs(stack.bits - before - ideal_bits) < 32 + 0.01 * x.size


@torch.no_grad()
@every_kind
@every_model
def test_the_density_is_near_the_float_models(kind, channels, levels):
    density = programs.program(kind, channels, levels).codec.density
    fraction_bits = programs.program(kind, channels, levels).description.fraction_bits
    x = programs.smooth(np.random.default_rng(8), 16, 8, 8, channels)
    v = (x << fraction_bits) + np.random.default_rng(9).integers(0, 1 << fraction_bits, x.shape)
    bits = density.push(noise_stack(), v) / ONE
    value = torch.from_numpy((v + 0.5) / 2**fraction_bits).permute(0, 3, 1, 2).float()
    expected = -programs.model(kind, channels, levels).density.log_prob(value).double() / np.log(2)
    assert np.abs(bits - expected.numpy()).max() / x[0].size < 0.03


@torch.no_grad()
@every_kind
def test_the_coded_rate_is_near_the_float_models_bound(kind):
    program, model = programs.program(kind), programs.model(kind)
    x = programs.smooth(np.random.default_rng(10), 64, 8, 8)
    stack = noise_stack(0, 1 << 17)
    before = stack.bits
    program.codec.push(stack, x)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        bound = model.bound(torch.from_numpy(x).float().permute(0, 3, 1, 2)).double().sum()
    assert abs(stack.bits - before + float(bound) / np.log(2)) / x.size < 0.05


@every_kind
def test_a_stack_too_short_for_the_first_loan_raises_underflow(kind):
    with pytest.raises(StackUnderflow):
        programs.program(kind).codec.push(Stack(b"little"), programs.odd_tiles()["smooth"])


@every_kind
@settings(max_examples=15)
@given(st.integers(0, 999), st.sampled_from([8, 200, 2000]))
def test_random_bits_decode_to_something_or_to_a_named_error(kind, seed, length):
    try:
        x = programs.program(kind).codec.pop(noise_stack(seed, length), 1, 8, 8)
    except DqcodecError:
        return
    assert x.shape == (1, 8, 8, 3)


@every_model
@pytest.mark.parametrize("kind", ["uniform", "interlaced"])
def test_a_flow_gives_samples_from_any_random_bits(kind, channels, levels):
    """No latent is taken from far outside of the base's table, so the samples are near those of the float model."""
    program = programs.program(kind, channels, levels)
    drawn = np.stack([generating.generate(program, 16, 32, seed) for seed in range(20)])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = programs.model(kind, channels, levels).sample(320, 32, 32).numpy()
    assert drawn.shape == (20, 16, 32, 32, channels)
    assert (
        np.abs(np.diff(np.quantile([drawn.ravel(), expected.ravel()], [0.1, 0.3, 0.5, 0.7, 0.9], axis=1), axis=1)).max()
        < 6
    )


@pytest.mark.parametrize("shear_bits", range(10, 18))
def test_latents_of_any_size_overflow_or_come_back(shear_bits):
    """What push takes, pop gives back, also where the transforms amplify up to the end of the proven range."""
    program = load(programs.with_tensors("uniform", programs.amplified("uniform", shear_bits)))
    for x in programs.odd_tiles().values():
        try:
            program.codec.push(noise_stack(), x)
        except LatentOverflow:
            continue
        assert_round_trip(program, x, noise_stack())


# --- model files


def load(content: bytes) -> FlowProgram:
    return load_program(programs.write(content))


@every_kind
@every_model
def test_a_program_knows_its_file(kind, channels, levels):
    program = programs.program(kind, channels, levels)
    assert (program.name, program.channels, program.bits, program.tile) == (kind, channels, 8, programs.TILE)
    assert program.multiple == 2**levels and program.card == {"about": "a test"}
    assert len(program.id) == 8 and load(programs.data(kind, channels, levels)).id == program.id


def test_an_export_is_the_same_every_time():
    content = programs.data("ard")
    programs.data.cache_clear()
    assert programs.data("ard") == content


@pytest.mark.parametrize("kind", ["gaussian", "ard"])
def test_every_tensor_is_needed(kind):
    for name in programs.tensors(kind):
        if name.endswith(".sizes"):
            continue  # without them the 1x1 convolution is one that keeps volume
        changed = programs.tensors(kind)
        del changed[name]
        with pytest.raises(ModelError) as caught:
            load(programs.with_tensors(kind, changed))
        assert "\n" not in str(caught.value), name


@pytest.mark.parametrize("kind", ["ard", "bipartite"])
@pytest.mark.parametrize("grown", [True, False])
def test_tensors_of_a_wrong_shape_are_a_model_error(kind, grown):
    """Found when the file is read, not when the first image is coded."""
    missed = []
    for name, tensor in programs.tensors(kind).items():
        for axis in range(tensor.ndim):
            changed = programs.tensors(kind)
            last = np.take(tensor, [-1], axis)
            changed[name] = np.concatenate([tensor, last], axis) if grown else np.delete(tensor, -1, axis)
            try:
                load(programs.with_tensors(kind, changed))
            except ModelError:
                continue
            missed.append((name, axis))
    assert not missed


@every_kind
def test_tensors_that_are_no_integers_are_a_model_error(kind):
    missed = []
    for name, tensor in programs.tensors(kind).items():
        try:
            load(programs.with_tensors(kind, programs.tensors(kind) | {name: tensor + np.float32(0.25)}))
        except ModelError:
            continue
        missed.append(name)
    assert not missed


@pytest.mark.parametrize("kind", ["ard", "bipartite"])
def test_the_most_negative_integers_do_not_evade_the_proofs(kind):
    """Their absolute value is negative in numpy."""
    missed = []
    for name, tensor in programs.tensors(kind).items():
        if tensor.dtype.kind != "i" or name.endswith((".weight", ".grid")):
            continue
        changed = tensor.copy()
        changed.flat[-1 if name.endswith(".lower") else 0] = np.iinfo(tensor.dtype).min
        if name.endswith(".lower"):
            changed = np.tril(changed, -1)
            changed[-1, 0] = np.iinfo(tensor.dtype).min
        if name.endswith(".upper"):
            changed = np.triu(changed, 1)
            changed[0, -1] = np.iinfo(tensor.dtype).min
        try:
            load(programs.with_tensors(kind, programs.tensors(kind) | {name: changed}))
        except ModelError:
            continue
        missed.append(name)
    assert not missed


@every_kind
def test_shears_that_are_not_triangular_are_a_model_error(kind):
    for name, tensor in programs.tensors(kind).items():
        if name.endswith((".lower", ".upper")):
            with pytest.raises(ModelError):
                load(programs.with_tensors(kind, programs.tensors(kind) | {name: tensor + 1}))


def enlarged(factor: int) -> dict[str, np.ndarray]:
    """The Gaussian program with weights that much larger in one trunk convolution; with 0 they are all 0."""
    changed = programs.tensors("gaussian")
    name = "density.0.0.net.0.1.weight"
    return changed | {name: changed[name].astype(np.int64) * factor}


def test_weights_too_large_for_float32_are_computed_in_float64():
    def trunk(program):
        return program.codec.density.levels[0][1].net.trunk.blocks[0][0]

    assert trunk(load(programs.with_tensors("gaussian", enlarged(0)))).dtype is np.float32
    program = load(programs.with_tensors("gaussian", enlarged(1 << 12)))
    assert trunk(program).dtype is np.float64 and trunk(program).bound >= 1 << 24
    assert_round_trip(program, programs.odd_tiles()["smooth"], noise_stack())
    weight, a = trunk(program).weight, np.full((1, 1, 1, 8), trunk(program).max_input, np.float32)
    exact = weight[:, :, 1, 1].astype(object).sum(1) * trunk(program).max_input + trunk(program).bias.astype(object)
    exact = np.clip(
        [int(n) >> int(s) for n, s in zip(exact, trunk(program).shift)], trunk(program).low, trunk(program).high
    )
    assert np.array_equal(trunk(program)(a)[0, 0, 0], exact)


@pytest.mark.parametrize("factor", [1 << 34, 1 << 45, 1 << 53])
def test_weights_too_large_for_float64_are_a_model_error(factor):
    with pytest.raises(ModelError):
        load(programs.with_tensors("gaussian", enlarged(factor)))


def test_an_activation_level_that_float32_cannot_hold_is_a_model_error():
    name = "density.0.0.net.level"
    for level in (1 << 25, 1 << 40, -1):
        with pytest.raises(ModelError):
            load(programs.with_tensors("gaussian", programs.tensors("gaussian") | {name: np.array(level)}))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 0},
        {"format": 2},
        {"format": None},
        {"format": "1"},
        {"channels": 2},
        {"channels": "3"},
        {"bits": -1},
        {"bits": 8.0},
        {"bits": 0},
        {"bits": 9},
        {"bits": 70},
        {"tile": 0},
        {"tile": 7},
        {"tile": "8"},
        {"tile": 1 << 40},
        {"grid_bits": 7},
        {"grid_bits": 21},
        {"unit_bits": 12},
        {"fraction_bits": 0},
        {"fraction_bits": 7},
        {"subflows": []},
        {"subflows": [2] * 9},
        {"subflows": 2},
        {"subflows": [3]},
        {"subflows": [-1]},
        {"subflows": ["2"]},
        {"subflows": [2.0]},
        {"subflows": None},
        {"dequantizer": "nothing"},
        {"dequantizer": None},
        {"dequantizer": "ard"},
        {"dequantizer": "bipartite"},
        {"dequantizer_transforms": 2},
        {"dequantizer_transforms": -1},
        {"dequantizer_transforms": 0},
        {"dequantizer_transforms": "1"},
        {"dequantizer_transforms": 10**12},
        {"context_channels": -1},
        {"name": None},
        {"name": 3},
        {"card": None},
        {"card": "text"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_a_wrong_description_is_a_model_error(changes):
    with pytest.raises(ModelError) as caught:
        load(programs.described("gaussian", **changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "null", "[]", "3", '"text"', "{", "{}", "[" * 100_000])
def test_metadata_that_are_no_description_are_a_model_error(text):
    with pytest.raises(ModelError):
        load(save(programs.tensors("uniform"), metadata={"dqcodec": text}))


def test_a_file_without_metadata_is_a_model_error():
    for metadata in (None, {}, {"other": "{}"}):
        with pytest.raises(ModelError):
            load(save(programs.tensors("uniform"), metadata=metadata))


def test_files_that_are_no_model_are_a_model_error():
    content, rng = programs.data("uniform"), np.random.default_rng(0)
    header = 8 + int.from_bytes(content[:8], "little")
    cuts = [0, 1, 7, 8, 9, 100, header - 1, header, header + 1, len(content) // 2, len(content) - 1]
    longer = [content + b"\0", content + content]
    noise = [rng.bytes(n) for n in (1, 8, 64, 5000)] + [bytes(100), b"\xff" * 100, b"PK\3\4" + bytes(50)]
    for broken in [content[:cut] for cut in cuts] + longer + noise:
        with pytest.raises(ModelError) as caught:
            load(broken)
        assert "\n" not in str(caught.value)


def test_a_scale_table_of_another_shape_is_a_model_error():
    for change in (lambda table: table[:, None], lambda table: table[None], lambda table: table[:-1]):
        changed = programs.tensors("gaussian")
        changed["scales"] = np.ascontiguousarray(change(changed["scales"]))
        with pytest.raises(ModelError):
            load(programs.with_tensors("gaussian", changed))


def test_a_dtype_that_numpy_lacks_is_a_model_error():
    from safetensors.torch import save as save_torch

    content = save_torch(
        {"scales": torch.zeros(3, dtype=torch.bfloat16)}, metadata=programs.metadata(programs.data("uniform"))
    )
    with pytest.raises(ModelError):
        load(content)


@settings(max_examples=80)
@given(st.sampled_from(KINDS), st.integers(0, 10_000), st.integers(0, 255))
def test_a_flipped_byte_of_the_header_is_a_model_error_or_a_program_that_keeps_the_law(kind, index, byte):
    content = bytearray(programs.data(kind))
    index = index % (8 + int.from_bytes(content[:8], "little"))
    content[index] = byte
    assert_model_error_or_lawful(bytes(content))


@settings(max_examples=60)
@given(st.sampled_from(KINDS), st.floats(0, 1, exclude_max=True), st.integers(32, 126))
def test_a_flipped_byte_of_the_description_is_a_model_error_or_a_program_that_keeps_the_law(kind, place, byte):
    description = bytearray(programs.metadata(programs.data(kind))["dqcodec"].encode())
    description[int(place * len(description))] = byte
    assert_model_error_or_lawful(save(programs.tensors(kind), metadata={"dqcodec": description.decode()}))


@settings(max_examples=60)
@given(st.sampled_from(KINDS), st.floats(0, 1, exclude_max=True), st.integers(1, 255))
def test_a_flipped_byte_of_the_tensors_is_a_model_error_or_a_program_that_keeps_the_law(kind, place, mask):
    content = bytearray(programs.data(kind))
    header = 8 + int.from_bytes(content[:8], "little")
    content[header + int(place * (len(content) - header))] ^= mask
    assert_model_error_or_lawful(bytes(content))


def assert_model_error_or_lawful(content: bytes) -> None:
    try:
        program = load(content)
    except ModelError as error:
        assert "\n" not in str(error)
        return
    side = 8 if program.multiple <= 8 else program.multiple
    x = programs.smooth(np.random.default_rng(0), 1, side, side, program.channels)
    stack = noise_stack()
    try:
        program.codec.push(stack, x)
    except (LatentOverflow, StackUnderflow):
        return
    try:
        assert np.array_equal(program.codec.pop(stack, *x.shape[:3]), x)
    except CorruptError:  # a damaged table: found by whoever verifies, and named
        pass
