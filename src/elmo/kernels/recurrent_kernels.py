"""Choice of the kernel that runs a recurrent layer of a language model."""

from elmo.errors import ConfigError
from elmo.kernels import recurrent_cpu, recurrent_cudnn, recurrent_reference
from elmo.kernels.gradient_mode import no_grad_if_unneeded
from elmo.kernels.recurrent_call import RecurrentCall, RecurrentResult

# Requirements of the kernels other than the reference.
NEEDS = {"cudnn": recurrent_cudnn.NEEDS, "cpu": recurrent_cpu.NEEDS}
NAMES = ("auto", *NEEDS, "reference")


def run_recurrent(
    call: RecurrentCall, kernel: str = "auto", record: bool = False
) -> RecurrentResult:
    """Run a recurrent layer over all time steps.

    Args:
        call: Weights, input and state.
        kernel: "auto" (the fastest kernel that supports the call), "cudnn", "cpu" or "reference".
        record: Whether to return the gates of all steps. Only the reference records.

    Raises:
        ConfigError: The kernel is unknown or does not support the call.
    """
    if kernel not in NAMES:
        raise ConfigError(f"Unknown kernel {kernel!r}. Expected one of: {', '.join(NAMES)}.")
    with no_grad_if_unneeded(call.tensors()):
        if not record:
            if kernel in ("auto", "cudnn") and recurrent_cudnn.can_run(call):
                return recurrent_cudnn.run(call)
            if kernel in ("auto", "cpu") and recurrent_cpu.can_run(call):
                return recurrent_cpu.run(call)
        if kernel in NEEDS:
            raise ConfigError(f"Kernel {kernel!r} needs {NEEDS[kernel]}. Use auto or reference.")
        return recurrent_reference.run(call, record)
