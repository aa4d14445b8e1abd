#!/bin/bash
# install.sh STEP WORK ...: installs the build into WORK and uses it from
# there, as a stranger's project would. Steps: install, cmake, pkg_config,
# driver; static does the first three with a static library of its own build. Nothing of the build tree and no environment variable helps.
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
static)
    source=$1 consumer=$2 cmake=$3 compiler=$4 pkg_config=$5 type=$6 onednn=$7
    build=$work.build
    "$cmake" -S "$source" -B "$build" -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_BUILD_TYPE="$type" -DCMAKE_CXX_COMPILER="$compiler" \
        -DGRADNN_BUILD_TESTS=OFF -DGRADNN_BUILD_DRIVER=OFF \
        -DGRADNN_ONEDNN="$onednn" >"$work.log"
    "$cmake" --build "$build" >>"$work.log"
    "$0" install "$work" "$build" "$cmake"
    if find "$prefix" -name 'libgradnn.so*' | grep .; then
        echo "a static build installs a shared library" >&2
        exit 1
    fi
    "$0" cmake "$work" "$consumer" "$cmake" "$compiler"
    "$0" pkg_config "$work" "$consumer" "$pkg_config" "$compiler"
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
