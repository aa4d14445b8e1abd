#include "memory_limit.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/parallel.hpp"

namespace gradnn::driver {

namespace {

constexpr size_t line_bytes = 64;
// Lines of the longer side that are streamed before the other side's turn:
// one page.
constexpr size_t block_lines = 64;

size_t lines(size_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes;
}

#ifdef __SSE2__

using sum_type = __m128i;

sum_type read_lines(const std::byte *from, size_t count, sum_type sum) {
    sum_type other = _mm_setzero_si128();
    for (size_t line = 0; line < count; ++line, from += line_bytes) {
        const auto *words = reinterpret_cast<const __m128i *>(from);
        sum = _mm_add_epi64(sum, _mm_load_si128(words));
        other = _mm_add_epi64(other, _mm_load_si128(words + 1));
        sum = _mm_add_epi64(sum, _mm_load_si128(words + 2));
        other = _mm_add_epi64(other, _mm_load_si128(words + 3));
    }
    return _mm_add_epi64(sum, other);
}

void write_lines(std::byte *to, size_t count, sum_type value) {
    for (size_t line = 0; line < count; ++line, to += line_bytes) {
        auto *words = reinterpret_cast<__m128i *>(to);
        for (int word = 0; word < 4; ++word)
            _mm_stream_si128(words + word, value);
    }
}

void finish_stores() {
    _mm_sfence();
}

uint64_t digest(sum_type sum) {
    return static_cast<uint64_t>(_mm_cvtsi128_si64(sum));
}

#else

using sum_type = uint64_t;

sum_type read_lines(const std::byte *from, size_t count, sum_type sum) {
    const auto *words = reinterpret_cast<const uint64_t *>(from);
    for (size_t word = 0; word < count * line_bytes / 8; ++word)
        sum += words[word];
    return sum;
}

void write_lines(std::byte *to, size_t count, sum_type value) {
    auto *words = reinterpret_cast<uint64_t *>(to);
    for (size_t word = 0; word < count * line_bytes / 8; ++word)
        words[word] = value;
}

void finish_stores() {}

uint64_t digest(sum_type sum) {
    return sum;
}

#endif

/// Keeps the reads from being optimised away.
std::atomic<uint64_t> sink {0};

} // namespace

memory_stream::memory_stream(
        size_t read_bytes, size_t write_bytes, size_t copies)
    : read_lines_(lines(read_bytes)),
      write_lines_(lines(write_bytes)),
      copies_(copies),
      source_(read_lines_ * line_bytes * copies),
      target_(write_lines_ * line_bytes * copies) {
    std::memset(source_.data(), 1, source_.size());
    std::memset(target_.data(), 1, target_.size());
}

double memory_stream::run(size_t copy) {
    const std::byte *source
            = source_.data() + copy % copies_ * read_lines_ * line_bytes;
    std::byte *target
            = target_.data() + copy % copies_ * write_lines_ * line_bytes;
    const size_t blocks = std::max(read_lines_, write_lines_) / block_lines + 1;
    using clock = std::chrono::steady_clock;
    const auto begin = clock::now();
    detail::parallel_for(
            static_cast<int64_t>(blocks), 1, [&](int64_t first, int64_t last) {
                sum_type sum {};
                for (auto block = static_cast<size_t>(first);
                        block < static_cast<size_t>(last); ++block) {
                    const size_t read_at = read_lines_ * block / blocks;
                    const size_t read_end = read_lines_ * (block + 1) / blocks;
                    const size_t write_at = write_lines_ * block / blocks;
                    const size_t write_end
                            = write_lines_ * (block + 1) / blocks;
                    sum = read_lines(source + read_at * line_bytes,
                            read_end - read_at, sum);
                    write_lines(target + write_at * line_bytes,
                            write_end - write_at, sum);
                }
                finish_stores();
                sink.fetch_xor(digest(sum), std::memory_order_relaxed);
            });
    return std::chrono::duration<double>(clock::now() - begin).count();
}

size_t memory_stream::memory_need(
        size_t read_bytes, size_t write_bytes, size_t copies) {
    return (lines(read_bytes) + lines(write_bytes)) * line_bytes * copies;
}

double copy_gb_per_s(size_t bytes) {
    memory_stream stream(bytes / 2, bytes / 2, 1);
    std::vector<double> seconds;
    for (int repeat = 0; repeat < 9; ++repeat)
        seconds.push_back(stream.run(0));
    std::nth_element(seconds.begin(), seconds.begin() + 4, seconds.end());
    return static_cast<double>(bytes) / seconds[4] / 1e9;
}

} // namespace gradnn::driver
