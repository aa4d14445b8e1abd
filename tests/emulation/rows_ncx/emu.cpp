#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>
#include "gpu/convolution_depthwise_rows_ncx.hpp"
#include "gpu/rounding.hpp"
#undef __device__
#undef __host__
#undef __global__
#undef __forceinline__
#undef __noinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __device__
#define __host__
#define __global__
#define __forceinline__
#define __noinline__
#define __launch_bounds__(...)
#define __grid_constant__
using std::max;
using std::min;
struct dim1 { unsigned x; };
static dim1 threadIdx, blockIdx, blockDim;
static long exact_calls = 0, copies_done = 0, problems_run = 0, blocks_run = 0;
static bool lazy = true;
#define CHECK(c) do { if (!(c)) { std::printf("FAILED %s line %d\n", #c, __LINE__); std::fflush(stdout); std::abort(); } } while (0)

// ---- fibers
extern "C" void switch_to(void **save, void *load);
asm(R"(
.text
.globl switch_to
switch_to:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp,(%rdi)
  mov %rsi,%rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
)");
struct pending { void *to; const void *from; int bytes; bool inside; bool committed; };
struct fiber { void *sp; char *stack; bool done; std::vector<pending> copies; };
static std::vector<fiber> fibers;
static int current; static void *scheduler_sp;
static std::function<void()> body;
static long progress;
static void yield() { switch_to(&fibers[current].sp, scheduler_sp); }
static void entry() {
    body();
    fibers[current].done = true; ++progress;
    yield();
}
static void *shared_memory; static size_t shared_size;
static uint4 *emulated_shared() { return static_cast<uint4 *>(shared_memory); }
struct barrier { int arrived = 0; long generation = 0; bool any = false, result = false; };
static barrier block_barrier; static std::vector<barrier> warp_barriers; static std::vector<double> exchange;
static bool arrive(barrier &b, int count, bool value) {
    const long mine = b.generation; b.any |= value; ++progress;
    if (++b.arrived == count) { b.result = b.any; b.any = false; b.arrived = 0; ++b.generation; return b.result; }
    while (b.generation == mine) yield();
    return b.result;
}
static void __syncthreads() { arrive(block_barrier, (int)blockDim.x, false); }
static int __syncthreads_or(int v) { return arrive(block_barrier, (int)blockDim.x, v != 0); }
template <typename T> T __shfl_xor_sync(unsigned, T v, int d) {
    const int t = current; barrier &b = warp_barriers[t / 32];
    exchange[t] = (double)v; arrive(b, 32, false);
    const T r = (T)exchange[t ^ d]; arrive(b, 32, false); return r;
}
static unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((uint64_t)a * b) >> 32); }

static void in_shared(const void *p, int bytes) {
    const auto *s = (const char *)shared_memory; const auto *q = (const char *)p;
    CHECK(q >= s && q + bytes <= s + shared_size); CHECK((uintptr_t)p % bytes == 0);
}
static const char *read_lo[2], *read_hi[2];
static void do_copy(const pending &p) {
    if (p.inside) std::memcpy(p.to, p.from, p.bytes); else std::memset(p.to, 0, p.bytes);
}
static void emulated_copy(void *to, const void *from, int bytes, bool inside) {
    ++copies_done;
    in_shared(to, bytes); CHECK((uintptr_t)from % bytes == 0);
    if (inside) {
        bool ok = false;
        for (int i = 0; i < 2; ++i) ok |= (const char *)from >= read_lo[i] && (const char *)from + bytes <= read_hi[i];
        CHECK(ok);
    }
    if (lazy) fibers[current].copies.push_back({to, from, bytes, inside, false}); else do_copy({to, from, bytes, inside, false});
}
namespace gradnn::gpu {
static void copy_async_up_to_16(void *to, const void *from, int bytes) { CHECK(bytes == 0 || bytes == 16); emulated_copy(to, from, 16, bytes == 16); }
static void commit_copies() { for (auto &p : fibers[current].copies) p.committed = true; }
template <int last> void wait_for_copies() {
    auto &c = fibers[current].copies; std::vector<pending> rest;
    for (auto &p : c) if (p.committed) do_copy(p); else rest.push_back(p);
    c = rest;
}
static void wait_for_earlier_work() {}
static void let_later_work_start() {}
template <typename T> using sum_of = T;
template <typename T> T widen(T v) { return v; }
template <typename T, typename S> T narrow(S v) { return (T)v; }
static const char *written_lo, *written_hi; 
template <typename T, int n> struct pack {
    T v[n];
    static void check(const T *p) {
        CHECK((uintptr_t)p % (n * sizeof(T)) == 0);
        in_shared(p, n * sizeof(T));
    }
    static pack load(const T *p) { check(p); pack r; std::memcpy(r.v, p, sizeof r.v); return r; }
    void store(T *p) const { check(p); std::memcpy(p, v, sizeof v); }
    void stream(T *p) const { CHECK((uintptr_t)p % sizeof v == 0); CHECK((char *)p >= written_lo && (char *)(p + n) <= written_hi); std::memcpy(p, v, sizeof v); }
    void unpack(T (&o)[n]) const { std::memcpy(o, v, sizeof v); }
    static pack of(const T (&i)[n]) { pack r; std::memcpy(r.v, i, sizeof r.v); return r; }
};
template <typename B> void with_float_type(detail::data_type t, const B &b) {
    if (t == detail::data_type::f64) b.template operator()<double>(); else b.template operator()<float>();
}
}
static std::mt19937_64 rng;
static int64_t pick(int64_t a, int64_t b) { return a + (int64_t)(rng() % (uint64_t)(b - a + 1)); }
template <typename... P, typename... A>
void emulated_launch(const char *, void (*kernel)(P...), unsigned grid, int block, size_t bytes, const gradnn::gpu::launch_stream &, A &&...args) {
    CHECK(grid > 0 && block > 0 && block <= 256 && block % 32 == 0 && bytes <= 49152);
    blockDim.x = (unsigned)block;
    while ((int)fibers.size() < block) { fibers.push_back({}); fibers.back().stack = (char *)std::malloc(1 << 18); }
    warp_barriers.assign(block / 32, {}); exchange.assign(block, 0);
    for (unsigned b = 0; b < grid; ++b) {
        ++blocks_run;
        blockIdx.x = b;
        shared_size = bytes; 
        if (posix_memalign(&shared_memory, 16, bytes)) std::abort();
        std::memset(shared_memory, 0xff, bytes); // NaN
        body = [&] { kernel(P(args)...); };
        block_barrier = {};
        for (int t = 0; t < block; ++t) {
            fiber &f = fibers[t]; f.done = false; f.copies.clear();
            auto top = ((uintptr_t)f.stack + (1 << 18)) & ~uintptr_t(63);
            auto *sp = (void **)top; *--sp = nullptr; *--sp = (void *)entry;
            for (int i = 0; i < 6; ++i) *--sp = nullptr;
            f.sp = sp;
        }
        const bool reverse = rng() & 1; const int rot = (int)(rng() % block);
        for (bool all = false; !all;) {
            all = true; const long before = progress;
            for (int i = 0; i < block; ++i) {
                const int t = ((reverse ? block - 1 - i : i) + rot) % block;
                if (fibers[t].done) continue;
                all = false; current = t; threadIdx.x = (unsigned)t;
                switch_to(&scheduler_sp, fibers[t].sp);
            }
            CHECK(all || progress != before);
        }
        CHECK(block_barrier.arrived == 0);
        std::free(shared_memory);
    }
}
#include "core.inc"
#include "data.inc"
#include "weights.inc"

using namespace gradnn::gpu;
template <typename T> struct tensor { std::vector<T> all; T *base; int64_t strides[5]; int64_t dims[5]; size_t span;
    T &at(int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) { return base[n * strides[0] + c * strides[1] + d * strides[2] + h * strides[3] + w * strides[4]]; } };
template <typename T> void make(tensor<T> &t, const int64_t (&dims)[5], bool may_zero) {
    std::copy(dims, dims + 5, t.dims);
    int order[3] = {2, 1, 0}; // inner to outer among D, C, N after H
    if (pick(0, 3) == 0) std::swap(order[pick(0, 2)], order[pick(0, 2)]);
    const int gaps = (int)pick(0, 2);
    const auto gap = [&](int64_t v) { const int each = 16 / sizeof(T); if (gaps == 0) return v; if (gaps == 1) return (v + each - 1) / each * each + pick(0, 1) * each; return v + pick(0, 5); };
    t.strides[4] = 1;
    int64_t ext = gap(dims[4]); t.strides[3] = ext; ext = gap(ext * dims[3]);
    for (int a : order) { t.strides[a] = ext; ext = gap(ext * dims[a]); }
    if (may_zero && pick(0, 30) == 0) t.strides[pick(0, 3)] = 0;
    size_t last = 0; for (int a = 0; a < 5; ++a) last += (dims[a] - 1) * t.strides[a];
    t.span = last + 1;
    t.all.assign(t.span + 8, (T)NAN);
    auto *p = t.all.data(); while ((uintptr_t)p % 16) ++p;
    const int off = pick(0, 1) ? 0 : (int)pick(0, 3);
    // the tensor ends within all
    if ((size_t)(p - t.all.data()) + off + t.span > t.all.size()) { t.base = p; } else t.base = p + off;
    CHECK((size_t)(t.base - t.all.data()) + t.span <= t.all.size());
}
template <typename T> void fill(tensor<T> &t, bool whole) {
    for (int64_t n = 0; n < t.dims[0]; ++n) for (int64_t c = 0; c < t.dims[1]; ++c) for (int64_t d = 0; d < t.dims[2]; ++d) for (int64_t h = 0; h < t.dims[3]; ++h) for (int64_t w = 0; w < t.dims[4]; ++w)
        t.at(n, c, d, h, w) = whole ? (T)pick(-4, 4) : (T)((double)pick(-1000000, 1000000) / 77777.);
}
static bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
static long counts[2][3][9], wide_seen, pieces_seen, tiles_seen, taken, refused, inf_seen, double_jobs;
template <typename T> void problem() {
    depthwise_shape s; const int kind = (int)pick(0, 2); // forward, to_src, weights
    s.to_src = kind == 1;
    int kernel = (int)pick(3, 63);
    const int before = pick(0, 1) ? (kernel - 1) / 2 : (int)pick(0, kernel - 1);
    const double r = std::exp(std::log(3000.) * (double)pick(0, 1000) / 1000.);
    int read = std::max(1, (int)r); if (pick(0, 1)) read = (read + 3) / 4 * 4;
    // after = written - read + kernel - 1 - before < kernel
    int most = read + before; int written = pick(0, 1) ? read : (int)pick(std::max<int64_t>(1, most - 2 * kernel), most);
    if (pick(0, 1)) written = std::max(1, std::min(most, (written + 3) / 4 * 4));
    if (written > most) written = most;
    if (written < 1) written = 1;
    s.images = pick(1, 6); s.channels = pick(1, 3);
    depthwise_axis *a = s.axes;
    a[0].read = a[0].written = pick(0, 4) ? 1 : (int)pick(1, 3);
    a[1].read = a[1].written = pick(0, 1) ? 1 : (int)pick(1, read < 100 ? 40 : 5);
    a[0].dilation = (int)pick(1, 2); // of no effect
    a[2].read = read; a[2].written = written; a[2].kernel = kernel;
    a[2].pad = s.to_src ? kernel - 1 - before : before;
    tensor<T> in, out;
    const int64_t rd[5] = {s.images, s.channels, a[0].read, a[1].read, read}, wd[5] = {s.images, s.channels, a[0].read, a[1].read, written};
    make(in, rd, true); make(out, wd, kind == 2);
    std::copy(in.strides, in.strides + 5, s.read_strides); std::copy(out.strides, out.strides + 5, s.written_strides);
    s.weights_strides[3] = pick(1, 3); s.weights_strides[0] = kernel * s.weights_strides[3] + pick(0, 3); s.weights_strides[1] = 7; s.weights_strides[2] = 5;
    if (!rows_ncx_take(s, sizeof(T))) { ++refused; return; }
    ++taken;
    depthwise_rows_ncx cut;
    const int64_t chain = pick(0, 1) ? 1024 : pick(1, 60), sms = pick(1, 132);
    CHECK(cut_rows_ncx(cut, s, sizeof(T), kind == 2, pick(0, 1) ? sms : 1, chain));
    ++counts[sizeof(T) == 8][kind][cut.chunks]; wide_seen += cut.wide_read && cut.wide_written; pieces_seen += cut.pieces > 1; tiles_seen += cut.row_tiles > 1; double_jobs += cut.jobs > 1;
    const bool whole = pick(0, 2) != 0;
    fill(in, whole);
    std::vector<T> weights(s.weights_strides[0] * s.channels + 8, (T)NAN);
    for (int64_t c = 0; c < s.channels; ++c) for (int k = 0; k < kernel; ++k) weights[c * s.weights_strides[0] + k * s.weights_strides[3]] = whole ? (T)pick(-4, 4) : (T)((double)pick(-1000, 1000) / 777.);
    const bool infinite = whole && kind != 2 && pick(0, 3) == 0;
    if (infinite) { ++inf_seen; const int n = (int)pick(1, 3); for (int i = 0; i < n; ++i) in.at(pick(0, rd[0] - 1), pick(0, rd[1] - 1), pick(0, rd[2] - 1), pick(0, rd[3] - 1), pick(0, read - 1)) = pick(0, 1) ? (T)INFINITY : (T)NAN;
        if (pick(0, 2) == 0) weights[pick(0, s.channels - 1) * s.weights_strides[0] + pick(0, kernel - 1) * s.weights_strides[3]] = (T)-INFINITY; }
    const auto type = sizeof(T) == 8 ? gradnn::detail::data_type::f64 : gradnn::detail::data_type::f32;
    read_lo[0] = (char *)in.base; read_hi[0] = (char *)(in.base + in.span);
    alignas(launch_stream) static char fake[sizeof(launch_stream)];
    const auto &stream = *(launch_stream *)fake;
    depthwise_pointers p; p.read = in.base; p.weights = weights.data(); p.written = out.base;
    lazy = pick(0, 3) != 0;
    ++problems_run;
    if (kind != 2) {
        read_lo[1] = read_hi[1] = nullptr;
        written_lo = (char *)out.base; written_hi = (char *)(out.base + out.span);
        const T mark = (T)-12345.5; std::fill(out.all.begin(), out.all.end(), mark);
        const long calls = exact_calls;
        launch_depthwise_rows_ncx_data(type, s, cut, p, stream);
        CHECK(infinite || exact_calls == calls);
        if (!infinite && whole) CHECK(true);
        auto first = out.all;
        size_t found = 0;
        for (int64_t n = 0; n < wd[0]; ++n) for (int64_t c = 0; c < wd[1]; ++c) for (int64_t d = 0; d < wd[2]; ++d) for (int64_t h = 0; h < wd[3]; ++h) for (int w = 0; w < written; ++w) {
            T sum = 0;
            double want = 0, size = 0;
            for (int k = 0; k < kernel; ++k) {
                const int q = s.to_src ? w + a[2].pad - k : w - a[2].pad + k;
                if (q < 0 || q >= read) continue;
                const double t = (double)in.at(n, c, d, h, q) * (double)weights[c * s.weights_strides[0] + k * s.weights_strides[3]];
                want += t; size += std::fabs(t);
            }
            sum = out.at(n, c, d, h, w);
            if (whole) CHECK(same(sum, want)); else CHECK(std::fabs(sum - want) <= size * (sizeof(T) == 8 ? 1e-13 : 4e-6) + 1e-30);
            out.at(n, c, d, h, w) = mark; ++found;
        }
        for (T v : out.all) CHECK(v == mark); // gaps untouched
        if (cut.wide_read || cut.wide_written) {
            std::fill(out.all.begin(), out.all.end(), mark); cut.wide_read = cut.wide_written = false;
            launch_depthwise_rows_ncx_data(type, s, cut, p, stream);
            for (size_t i = 0; i < first.size(); ++i) CHECK(std::memcmp(&first[i], &out.all[i], sizeof(T)) == 0 || (first[i] != first[i] && out.all[i] != out.all[i]));
        }
        return;
    }
    fill(out, whole);
    read_lo[1] = (char *)out.base; read_hi[1] = (char *)(out.base + out.span);
    std::vector<T> sums((size_t)s.channels * kernel * cut.parts, (T)NAN);
    p.workspace = sums.data();
    launch_depthwise_rows_ncx_weights(type, s, cut, p, stream);
    for (int64_t c = 0; c < s.channels; ++c) for (int k = 0; k < kernel; ++k) {
        double want = 0, size = 0, got = 0;
        for (int64_t n = 0; n < wd[0]; ++n) for (int64_t d = 0; d < wd[2]; ++d) for (int64_t h = 0; h < wd[3]; ++h) for (int w = 0; w < written; ++w) {
            const int q = w - a[2].pad + k; if (q < 0 || q >= read) continue;
            const double t = (double)in.at(n, c, d, h, q) * (double)out.at(n, c, d, h, w); want += t; size += std::fabs(t);
        }
        for (int i = 0; i < cut.parts; ++i) got += sums[(c * kernel + k) * cut.parts + i];
        if (whole) CHECK(got == want); else CHECK(std::fabs(got - want) <= size * (sizeof(T) == 8 ? 1e-12 : 2e-5) + 1e-30);
    }
    if (cut.wide_read || cut.wide_written) {
        auto first = sums; std::fill(sums.begin(), sums.end(), (T)NAN); cut.wide_read = cut.wide_written = false;
        launch_depthwise_rows_ncx_weights(type, s, cut, p, stream);
        CHECK(std::memcmp(first.data(), sums.data(), sums.size() * sizeof(T)) == 0);
    }
}
int main(int argc, char **argv) {
    const uint64_t from = std::atol(argv[1]), count = std::atol(argv[2]); (void)argc;
    for (uint64_t i = from; i < from + count; ++i) { rng.seed(i); if (std::getenv("V")) { std::printf("%lu\n", i); std::fflush(stdout); } if (pick(0, 1)) problem<float>(); else problem<double>(); }
    std::printf("ran %ld refused %ld blocks %ld copies %ld exact %ld inf %ld wide %ld pieces %ld tiles %ld jobs2 %ld\n", problems_run, refused, blocks_run, copies_done, exact_calls, inf_seen, wide_seen, pieces_seen, tiles_seen, double_jobs);
    for (int t = 0; t < 2; ++t) for (int k = 0; k < 3; ++k) { std::printf("%s kind %d chunks:", t ? "f64" : "f32", k); for (int c = 1; c < 9; ++c) std::printf(" %ld", counts[t][k][c]); std::printf("\n"); }
}
