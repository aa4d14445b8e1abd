// libFuzzer's entry to the reader of graphs: bytes as the text of a file.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/input_error.hpp"
#include "files/json_graph.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try {
        gradnn::detail::parse_json_graph(
                std::string_view(reinterpret_cast<const char *>(data), size),
                "fuzzed.json");
    } catch (const gradnn::detail::input_error &) {
        // What a broken file must end in; anything else ends the process.
    }
    return 0;
}
