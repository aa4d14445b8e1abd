// What a program may do wrong.
#pragma once

#include <functional>
#include <vector>

#include "misuse_sample.hpp"

namespace gradnn::fuzz {

/// A mistake: changes a right sample and calls what must throw.
struct mistake {
    const char *name;
    std::function<void(sample &, random_source &)> make;
};

const std::vector<mistake> &mistakes();

} // namespace gradnn::fuzz
