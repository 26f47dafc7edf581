"""What a machine trains on, and whether it trains faster in bfloat16."""

from typing import Literal

import torch

from dqcodec.base.errors import DqcodecError

Switch = Literal["auto", "on", "off"]


def chosen(device: str) -> str:
    """cpu or cuda. device: one of them, or auto. Raises DqcodecError: cuda is not there."""
    if device == "cuda" and not torch.cuda.is_available():
        raise DqcodecError("this machine has no GPU that torch can use: give --device cpu")
    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def bfloat16(amp: Switch, device: str) -> bool:
    """Whether networks train in bfloat16. auto: if the hardware has instructions for it; elsewhere it is slower."""
    if amp != "auto":
        return amp == "on"
    if device == "cpu":
        capabilities = torch.cpu.get_capabilities()
        return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))
    return torch.cuda.is_bf16_supported(including_emulation=False)
