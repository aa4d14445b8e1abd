// Machine code of kernels, kept in a folder for later processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gradnn::gpu::jit {

/// Of a text, for names of files and keys: FNV-1a, 16 hexadecimal digits.
std::string digest_of(std::string_view text);

/// What was kept under a key. Nothing where the folder or the file is not there,
/// belongs to another user or may be written by one, or where the file is not
/// what write_cached wrote: the log says so once.
std::optional<std::string> read_cached(
        const std::string &folder, const std::string &key);

/// Keeps code for a key, in a file that appears as a whole, and makes the folder
/// where it is not there. What cannot be written is not kept: the log says so
/// once. Where the folder holds more bytes than that, deletes the files that were used
/// least recently.
void write_cached(const std::string &folder, const std::string &key,
        const std::string &code, int64_t most_bytes = 256 << 20);

} // namespace gradnn::gpu::jit
