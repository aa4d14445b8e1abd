#!/bin/bash
# install.sh STEP WORK ...: installs the build into WORK and uses it from
# there, as a stranger's project would. Steps: install, cmake, pkg_config,
# driver. Nothing of the build tree and no environment variable helps.
set -euo pipefail

step=$1
work=$2
shift 2
prefix=$work/prefix

# Runs a program with an empty environment.
run_bare() { env -i "$@"; }

case $step in
install)
    build=$1 cmake=$2
    rm -rf "$work"
    # Installed in one place and moved to another: nothing may remember where
    # it was put.
    "$cmake" --install "$build" --prefix "$work/first" >"$work.log"
    mv "$work/first" "$prefix"
    (cd "$prefix" && find . ! -type d | sort)
    if grep -rIl -e "$build" -e "$work/first" "$prefix"; then
        echo "these files name the build tree" >&2
        exit 1
    fi
    ;;
cmake)
    source=$1 cmake=$2 compiler=$3
    rm -rf "$work/cmake"
    "$cmake" -S "$source" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release
    "$cmake" --build "$work/cmake"
    run_bare "$work/cmake/consumer"
    ;;
pkg_config)
    source=$1 pkg_config=$2 compiler=$3
    rm -rf "$work/pkg_config"
    mkdir "$work/pkg_config"
    cp "$source"/* "$work/pkg_config"
    make -C "$work/pkg_config" CXX="$compiler" PKG_CONFIG="$pkg_config" \
        PKG_CONFIG_PATH="$(dirname "$(find "$prefix" -name gradnn.pc)")"
    run_bare "$work/pkg_config/consumer"
    ;;
driver)
    run_bare "$prefix/bin/gradnn" info
    run_bare "$prefix/bin/gradnn" check "$1"
    ;;
*)
    echo "unknown step $step" >&2
    exit 2
    ;;
esac
