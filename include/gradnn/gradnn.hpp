// gradnn: gradients of interpolation and convolution, as a primitive library.
//
// Data flows one way: op -> graph -> partition -> compiled partition ->
// execute. The classes follow oneDNN Graph's C++ API (dnnl_graph.hpp).
//
// C++17. Enumerators have explicit values, which never change once a release
// has them; where oneDNN Graph has an enumerator, the value is its own.
#pragma once

#include <gradnn/engine.hpp>
#include <gradnn/graph.hpp>
#include <gradnn/log.hpp>
#include <gradnn/op.hpp>
#include <gradnn/settings.hpp>
#include <gradnn/status.hpp>
#include <gradnn/tensor.hpp>
#include <gradnn/version.hpp>
