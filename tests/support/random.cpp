#include "random.hpp"

#include <cstdlib>
#include <string>

namespace gradnn::test {

uint64_t test_seed(uint64_t fallback) {
    const char *const given = std::getenv("GRADNN_TEST_SEED");
    return given ? std::stoull(given) : fallback;
}

bool thinned() {
    const char *const given = std::getenv("GRADNN_TEST_THIN");
    return given && std::string(given) != "0";
}

} // namespace gradnn::test
