"""Bijections: log_det is autograd's Jacobian, inverse undoes forward, masks keep their order."""

import pytest
import torch
from flows import jacobian, randomised

from dqcodec.flows.autoregressive import AffineAutoregressive, Reversed
from dqcodec.flows.couplings import AffineCoupling, ConditionalAffine, ReverseChannels
from dqcodec.flows.networks import AutoregressiveDenseNet, AutoregressiveNet, DenseNet, ResidualNet
from dqcodec.flows.transforms import Chain, Conv1x1, Rescale, Squeeze, haar_ycocg

SHAPE = (1, 4, 2, 4)
CONTEXT = 3

TRANSFORMS = {
    "squeeze": lambda: Squeeze(),
    "rescale": lambda: Rescale(3.0, 4.0),
    "conv1x1": lambda: Conv1x1(torch.randn(4, 4)),
    "conv1x1 of volume one": lambda: Conv1x1(torch.eye(4)[torch.randperm(4)], scaled=False),
    "coupling": lambda: AffineCoupling(ResidualNet(2, 4, 5, 1), 2),
    "conditional coupling": lambda: AffineCoupling(ResidualNet(3, 2, 5, 1, CONTEXT), 3),
    "conditional affine": lambda: ConditionalAffine(ResidualNet(CONTEXT, 8, 5, 1)),
    "autoregressive": lambda: AffineAutoregressive(AutoregressiveNet(4, 2, CONTEXT)),
    "reversed": lambda: Reversed(AffineAutoregressive(AutoregressiveNet(4, 2, CONTEXT))),
    "coupling of a dense net": lambda: AffineCoupling(DenseNet(2, 4, 5, 3), 2),
    "conditional coupling of a dense net": lambda: AffineCoupling(DenseNet(3, 2, 5, 2, CONTEXT), 3),
    "autoregressive dense net": lambda: AffineAutoregressive(AutoregressiveDenseNet(4, 3, CONTEXT, 2)),
    "reverse": lambda: ReverseChannels(),
    "chain": lambda: Chain([Conv1x1(haar_ycocg(1)), AffineCoupling(ResidualNet(2, 4, 5, 1), 2), Squeeze()]),
}
UNCONDITIONAL = {"coupling", "coupling of a dense net", "chain"}


def _transform(name: str, seed: int):
    torch.manual_seed(seed)
    transform = randomised(TRANSFORMS[name]())
    context = None if name in UNCONDITIONAL else torch.randn(SHAPE[0], CONTEXT, *SHAPE[2:]).double()
    return transform, context, torch.randn(SHAPE).double()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", TRANSFORMS)
def test_inverse_undoes_forward_with_the_same_log_det(name, seed):
    transform, context, x = _transform(name, seed)
    with torch.no_grad():
        z, log_det = transform(x, context)
        again, log_det_again = transform.inverse(z, context)
    torch.testing.assert_close(again, x)
    torch.testing.assert_close(log_det_again, log_det)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", TRANSFORMS)
def test_log_det_is_that_of_autograds_jacobian(name, seed):
    transform, context, x = _transform(name, seed)
    with torch.no_grad():
        z, log_det = transform(x, context)
    # of the inverse: the autoregressive forward carries no gradient
    matrix = jacobian(lambda latent: transform.inverse(latent, context)[0], z)
    torch.testing.assert_close(log_det, -torch.linalg.slogdet(matrix).logabsdet[None])


def test_a_conv1x1_is_the_matrix_it_was_given():
    weight = torch.randn(6, 6)
    torch.testing.assert_close(Conv1x1(weight).weight(), weight, atol=1e-4, rtol=1e-4)


def test_a_volume_preserving_conv1x1_keeps_its_diagonal_untrained():
    conv = Conv1x1(torch.eye(4), scaled=False)
    conv(torch.randn(SHAPE))[0].sum().backward()
    assert conv.log_diagonal.grad is None and conv.lower.grad is not None


@pytest.mark.parametrize("channels", [1, 3])
def test_the_haar_start_is_orthogonal(channels):
    matrix = haar_ycocg(channels)
    torch.testing.assert_close(matrix @ matrix.T, torch.eye(4 * channels))


@pytest.mark.parametrize(
    "make",
    [
        lambda: AutoregressiveNet(3, 1, CONTEXT),
        lambda: AutoregressiveNet(3, 3, CONTEXT),
        lambda: AutoregressiveDenseNet(3, 24, CONTEXT, 3),
    ],
)
def test_masked_convolutions_are_autoregressive_in_c_h_w_order(make):
    torch.manual_seed(0)
    net = randomised(make(), 1.0)
    x, context = torch.randn(1, 3, 3, 3).double(), torch.randn(1, CONTEXT, 3, 3).double()
    for part in range(2):  # locations, raw log-scales
        matrix = jacobian(lambda eps: net(eps, context).chunk(2, 1)[part], x)
        assert (matrix.triu() == 0).all()
        # no more is hidden than must be: an earlier channel is seen from everywhere within the receptive field
        assert (matrix.view(27, 3, 9)[:, 1].view(3, 9, 9)[2].diagonal() != 0).all()


def test_location_and_scale_of_a_new_network_are_zero():
    x = torch.randn(SHAPE)
    for transform, context in [
        (AffineCoupling(ResidualNet(2, 4, 5, 1), 2), None),
        (AffineCoupling(DenseNet(2, 4, 5, 1), 2), None),
        (AffineAutoregressive(AutoregressiveNet(4, 2, CONTEXT)), torch.randn(1, CONTEXT, 2, 4)),
    ]:
        z, log_det = transform(x, context)
        assert torch.equal(z, x) and log_det == 0


@pytest.mark.parametrize("kind", [ResidualNet, DenseNet])
def test_networks_in_bfloat16_give_float32(kind):
    net = kind(2, 4, 5, 1)
    torch.nn.init.normal_(net.conv_out.weight)
    x = torch.randn(1, 2, 4, 4)
    exact = net(x)
    net.bfloat16 = True
    assert net(x).dtype == torch.float32
    torch.testing.assert_close(net(x), exact, atol=0.1, rtol=0.1)
