"""How numba compiles functions that only compiled loops call.

Numba makes machine code of every function it compiles, and optimises it for this, again in every function that calls
it. Here a part of a loop is kept as LLVM's intermediate code: only the loop is optimised, with all its parts, and
becomes machine code.
"""

from numba.core import codegen, compiler, compiler_machinery, cpu, typed_passes


class _IntermediateCode(codegen.JITCodeLibrary):
    """The code of a part, with that of its own parts. Loops link it as they link any other library."""

    def _optimize_final_module(self) -> None:
        """Nothing: the loop does it."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


@compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(typed_passes.NativeLowering):
    """Numba's pass from its own code to LLVM's, without machine code."""

    _name = "lowering_of_part"

    def run_pass(self, state: compiler.StateDict) -> bool:
        name = state.func_id.func_qualname
        state.library = _IntermediateCode(state.targetctx.codegen(), name)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        # Callers find the part by an object that numba would call from Python. Nobody does: its address is null.
        key = cpu._dynfunc.make_function(lowered.fndesc.lookup_module(), name, "", 0, lowered.env, (state.library,))
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=key)
        return True


class Compiler(compiler.CompilerBase):
    """Numba's compiler with that pass: the `pipeline_class` of parts."""

    def define_pipelines(self) -> list[compiler_machinery.PassManager]:
        """Numba's passes, that one replaced."""
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_Lowering if each is typed_passes.NativeLowering else each, text) for each, text in passes.passes
        ]
        passes.finalize()
        return [passes]


OPTIONS = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True, "pipeline_class": Compiler}  # of all parts
