#!/bin/bash
# exports.sh LIBRARY: fails, naming them, if the library exports symbols that
# are neither of namespace gradnn nor of the C API, or internals.
set -euo pipefail

symbols=$(nm -DC --defined-only "$1" | cut -d' ' -f3-)
echo "$(wc -l <<<"$symbols") symbols exported"
grep -q '^gradnn::engine::engine(' <<<"$symbols" || {
    echo "gradnn::engine's constructor is not exported" >&2
    exit 1
}
prefix='^((typeinfo|typeinfo name|vtable) for )?gradnn::'
c_api='^gradnn_[a-z_]+$'
if strays=$(grep -vE "$prefix|$c_api" <<<"$symbols"); then
    printf 'not of gradnn:\n%s\n' "$strays" >&2
    exit 1
fi
# Of the internals, only what dlpack.hpp's templates call.
internals=$(grep -E "$prefix(detail|cpu|gpu|c_api)::" <<<"$symbols" || true)
if strays=$(grep -v '^gradnn::detail::dl_' <<<"$internals" | grep .); then
    printf 'internal to gradnn:\n%s\n' "$strays" >&2
    exit 1
fi
