"""Keys of the caches that PyTorch keeps of compiled code.

Graphs are looked up, in memory, on disk and in remote caches, before a
decomposition is called, so that the keys must tell whether gradnn replaces them.
All of these keys hold torch.compiler.config.cache_key_tag (PyTorch 2.8 and
later). A value that is set there concerns one thread, and the next setter
overwrites it: the class of the module is given a property in its place, which
adds gradnn's mark to what PyTorch and the user say.
"""

from __future__ import annotations

import torch.compiler.config as config

from .. import _core

_NAME = "cache_key_tag"
_MARK = f" gradnn {_core.version()}"
_marked = False


def _read(module) -> str:
    """As PyTorch has it, and gradnn's mark. What was read once may have been put
    back, mark and all."""
    own = module.__getattr__(_NAME).replace(_MARK, "")
    return own + _MARK if _marked else own


def enable() -> None:
    """From now on code is compiled for, and found by, processes with gradnn."""
    global _marked
    _marked = True
    kind = type(config)
    if _NAME in getattr(config, "_config", ()) and _NAME not in vars(kind):
        setattr(kind, _NAME, property(_read))


def disable() -> None:
    global _marked
    _marked = False
