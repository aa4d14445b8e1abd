"""The stub files (.pyi) say what the code does: names, parameters, defaults."""

import ast
import importlib
import inspect
import pathlib
import sys

import gradnn
import pytest

FOLDER = pathlib.Path(gradnn.__file__).parent


def stub_of(module):
    return ast.parse(
        FOLDER.joinpath(*module.split(".")[1:], "__init__.pyi").read_text()
    )


def parameters_of(function):
    """(name, kind, default as text) of each parameter of a stub's function."""
    given = function.args
    positional = given.posonlyargs + given.args
    missing = [None] * (len(positional) - len(given.defaults))
    kinds = inspect.Parameter
    for each, default in zip(positional, missing + given.defaults):
        yield each.arg, kinds.POSITIONAL_OR_KEYWORD, default
    for each, default in zip(given.kwonlyargs, given.kw_defaults):
        yield each.arg, kinds.KEYWORD_ONLY, default


@pytest.mark.parametrize("module", ["gradnn", "gradnn.torch", "gradnn.jax"])
def test_stub_has_every_public_name_and_no_other(module):
    if module != "gradnn":
        pytest.importorskip(module.split(".")[1])
    names = set()
    for node in stub_of(module).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
    # What the stub needs for its types is not there at run time.
    names -= {"SupportsDLPack"}
    assert names == set(importlib.import_module(module).__all__)


@pytest.mark.parametrize("module", ["gradnn", "gradnn.torch", "gradnn.jax"])
def test_stub_has_the_parameters_of_the_functions(module):
    if module != "gradnn":
        pytest.importorskip(module.split(".")[1])
    package = importlib.import_module(module)
    functions = [
        node for node in stub_of(module).body if isinstance(node, ast.FunctionDef)
    ]
    assert functions
    for node in functions:
        real = list(inspect.signature(getattr(package, node.name)).parameters.values())
        stub = list(parameters_of(node))
        assert [each.name for each in real] == [name for name, _, _ in stub], node.name
        for parameter, (name, kind, default) in zip(real, stub):
            place = f"{node.name}, {name}"
            assert parameter.kind == kind, place
            assert (default is None) == (parameter.default is parameter.empty), place
            if default is not None:
                # Of our own stub: a constant, or one of JAX's.
                value = eval(ast.unparse(default), {"jax": sys.modules.get("jax")})
                assert value == parameter.default, place


@pytest.mark.parametrize(
    "name", ["Error", "InvalidArgumentError", "UnsupportedError", "OutOfMemoryError"]
)
def test_stub_has_the_bases_of_the_errors(name):
    node = next(
        each
        for each in stub_of("gradnn").body
        if isinstance(each, ast.ClassDef) and each.name == name
    )
    bases = [base.__name__ for base in getattr(gradnn, name).__bases__]
    assert [ast.unparse(base) for base in node.bases] == bases
