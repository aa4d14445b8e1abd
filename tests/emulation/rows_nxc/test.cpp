#include "emu.h"
#include <ucontext.h>
#include <sys/mman.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>
#include <array>
#include <algorithm>
#include "gpu/convolution_depthwise_rows_nxc.hpp"
#include "gpu/dtype.cuh"
using namespace gradnn;
using namespace gradnn::gpu;
using detail::data_type;

emu_dim threadIdx, blockIdx;
long emu_exact = 0;
static bool use_fibers = false;
static long long checks = 0;

[[noreturn]] static void fail(const char *what) { std::printf("FAIL %s\n", what); std::fflush(stdout); std::abort(); }

static std::vector<char> shared_memory; static size_t shared_bytes;
// Memory.
struct buffer {
    char *base = nullptr; // element 0
    size_t element = 4;
    int64_t lo = 0, hi = 0; // elements
    std::vector<uint8_t> valid; // by element
    std::vector<uint8_t> written;
    bool sparse = false;
    std::unordered_map<int64_t, int> far; // index -> writes
};
static std::vector<buffer *> buffers;
void emu_check(const void *p, size_t bytes, bool write) {
    ++checks;
    const auto a = reinterpret_cast<uintptr_t>(p);
    if (a % bytes != 0) fail("alignment");
    if (!shared_memory.empty() && p >= shared_memory.data() && p < shared_memory.data() + shared_memory.size()) {
        if (write || (const char *)p + bytes > shared_memory.data() + shared_bytes) fail("shared outside");
        for (size_t i = 0; i < bytes; i += 4) { uint32_t w; std::memcpy(&w, (const char *)p + i, 4); if (w == 0xfff7abcd) fail("shared unwritten"); }
        return;
    }
    for (buffer *b : buffers) {
        const auto from = reinterpret_cast<uintptr_t>(b->base);
        const auto at = static_cast<int64_t>(a - from);
        if (b->sparse) {
            bool any = false;
            for (size_t i = 0; i < bytes / b->element; ++i) {
                auto it = b->far.find(at / (int64_t)b->element + (int64_t)i);
                if (it == b->far.end()) { if (any) fail("sparse partly"); break; }
                any = true;
                if (write) ++it->second;
            }
            if (any) return;
            continue;
        }
        if (a < from || at >= b->hi * (int64_t)b->element) continue;
        if (at % b->element != 0) fail("element");
        for (size_t i = 0; i < bytes / b->element; ++i) {
            const size_t e = at / b->element + i;
            if (e >= b->valid.size() || !b->valid[e]) fail(write ? "store outside" : "load outside");
            if (write) ++b->written[e];
        }
        return;
    }
    fail("address of no tensor");
}

char *emu_shared() { return shared_memory.data(); }
int64_t emu_weights_size, emu_partials_size;
void emu_fail(const char *w) { fail(w); }
static std::vector<int> order;
// Threads of a block.
static std::vector<ucontext_t> contexts;
static std::vector<std::unique_ptr<char[]>> stacks;
static std::vector<bool> finished;
static ucontext_t scheduler;
static int current = 0, alive = 0;
static const std::function<void()> *body_of = nullptr;
static int block_arrived = 0; static long block_generation = 0;
static int warp_arrived[4]; static long warp_generation[4]; static uint64_t warp_values[4][32];
static void pause_thread() { const int me = current; swapcontext(&contexts[me], &scheduler); current = me; threadIdx.x = me; }
void emu_sync() {
    const long g = block_generation;
    if (++block_arrived == (int)contexts.size()) { block_arrived = 0; ++block_generation; return; }
    while (block_generation == g) pause_thread();
}
static void warp_sync(int w) {
    const long g = warp_generation[w];
    if (++warp_arrived[w] == 32) { warp_arrived[w] = 0; ++warp_generation[w]; return; }
    while (warp_generation[w] == g) pause_thread();
}
uint64_t emu_shuffle(uint64_t v, int from) {
    const int w = threadIdx.x / 32, lane = threadIdx.x % 32;
    warp_values[w][lane] = v; warp_sync(w);
    const uint64_t r = warp_values[w][from]; warp_sync(w);
    return r;
}
static void entry() { (*body_of)(); finished[current] = true; --alive; swapcontext(&contexts[current], &scheduler); }
static uint64_t blocks_run = 0;
void emu_run(unsigned grid, unsigned block, size_t shared, const std::function<void()> &body) {
    for (unsigned b = 0; b < grid; ++b) {
        blockIdx.x = b; ++blocks_run;
        if (shared > 49152) fail("too much shared");
        shared_bytes = shared; 
        if (shared) { shared_memory.resize(shared + 256 + 8);
        for (size_t i = 0; i + 4 <= shared_memory.size(); i += 4) { uint32_t w = 0xfff7abcd; std::memcpy(&shared_memory[i], &w, 4); } } else shared_memory.clear();
        order.resize(block); for (unsigned i = 0; i < block; ++i) order[i] = b % 3 == 1 ? block - 1 - i : i; 
        if (!use_fibers) {
            for (unsigned t = 0; t < block; ++t) { threadIdx.x = t; body(); }
            continue;
        }
        constexpr size_t bytes = 256 << 10;
        contexts.resize(block); finished.assign(block, false);
        while (stacks.size() < block) stacks.emplace_back(new char[bytes]);
        body_of = &body; alive = block;
        for (unsigned t = 0; t < block; ++t) {
            getcontext(&contexts[t]);
            contexts[t].uc_stack.ss_sp = stacks[t].get(); contexts[t].uc_stack.ss_size = bytes;
            contexts[t].uc_link = &scheduler;
            makecontext(&contexts[t], entry, 0);
        }
        while (alive > 0)
            for (unsigned o = 0; o < block; ++o) {
                const unsigned t = order[o];
                if (finished[t]) continue;
                current = t; threadIdx.x = t;
                swapcontext(&scheduler, &contexts[t]);
            }
        if (block_arrived) fail("barrier");
        if (shared) for (size_t i = shared; i + 4 <= shared_memory.size(); i += 4) { uint32_t w; std::memcpy(&w, &shared_memory[i], 4); if (w != 0xfff7abcd) fail("shared written outside"); }
    }
}

static std::mt19937 rng(1);
static int pick(int a, int b) { return std::uniform_int_distribution<int>(a, b)(rng); }

struct arranged { std::array<int64_t, 5> dims, strides; int64_t size; };
static arranged layout(std::array<int64_t, 5> d, bool nxc, int multiple) {
    arranged t; t.dims = d;
    const int order_nxc[5] = {1, 4, 3, 2, 0}, order_ncx[5] = {4, 3, 2, 1, 0};
    int64_t at = 1;
    const bool gaps = pick(0, 1);
    for (int i = 0; i < 5; ++i) {
        const int axis = nxc ? order_nxc[i] : order_ncx[i];
        t.strides[axis] = at;
        at *= d[axis];
        if (gaps && pick(0, 2) == 0) at += multiple * pick(0, 3);
        if (i == 0 && gaps && multiple > 1) at = (at + multiple - 1) / multiple * multiple;
    }
    t.size = at;
    return t;
}

template <typename Type> Type make(double v) { return narrow<Type>(v); }
template <typename Type> double value(Type v) { return (double)widen(v); }

struct trial {
    bool nxc, whole; int mp, chain, size, depth; // window
    bool volume;
};
static bool divides(int64_t count, const arranged &t, size_t axis) {
    if (t.dims[axis] % count != 0) return false;
    for (size_t o = 0; o < 5; ++o)
        if (o != axis && t.dims[o] > 1 && t.strides[o] % count != 0) return false;
    return true;
}
template <typename Type> bool same(Type a, Type b) { return std::memcmp(&a, &b, sizeof a) == 0 || (value(a) != value(a) && value(b) != value(b)); }


static long counts[16];
static bool tap_types[80];
template <typename Type>
void one(data_type type, int mode /*0 ints, 1 floats, 2 infinite ints, 3 infinite floats*/, bool big) {
    using sum = sum_of<Type>;
    const int size = pick(0, 4) ? pick(9, 72) : (const int[]) {9, 15, 16, 17, 31, 32, 33, 64, 65, 72}[pick(0, 9)];
    std::array<int64_t, 5> sd;
    const int most_c[] = {2, 3, 5, 8, 31, 32, 33, 62, 63, 64, 65, 66, 70, 99, 130};
    do {
        sd = {pick(1, 3), most_c[pick(0, 14)], pick(0, 2) ? 1 : pick(1, 3), pick(0, 2) ? 1 : pick(1, 7), pick(0, 3) ? pick(1, 130) : pick(100, 1500)};
    } while (sd[0] * sd[1] * sd[2] * sd[3] * sd[4] > (mode >= 2 ? 6000 : 20000) || (big && sd[0] * sd[1] * sd[2] * sd[3] * sd[4] > 3000));
    const bool to_src = pick(0, 1);
    int64_t pad = 0;
    std::array<int64_t, 5> dd = sd;
    {
        int tries = 0;
        do {
            if (++tries > 50) sd[4] = size + 2;
            pad = pick(0, 3) ? pick(0, size - 1) : pick(-20, size + 40);
            if (pick(0, 1)) pad = size / 2;
            const int pe = pick(0, 3) ? pick(0, size - 1) : pick(-20, size + 40);
            dd[4] = sd[4] + pad + pe - size + 1;
        } while (dd[4] < 1);
    }
    const int multiple = pick(0, 1) ? 1 : pick(0, 1) ? 2 : 8;
    arranged st = layout(sd, true, multiple), dt = layout(dd, true, multiple);
    if (big) {
        int64_t far = int64_t {1} << 32;
        for (int axis : {3, 2, 0}) if (pick(0, 1)) { st.strides[axis] += far / (int64_t)sizeof(Type) / 8 * 8; dt.strides[axis] += far / (int64_t)sizeof(Type) / 8 * 8; }
        if (sd[4] < 400 && dd[4] < 400 && pick(0, 1)) { st.strides[4] = ((int64_t {1} << 31) - 8); dt.strides[4] = (int64_t {1} << 31) - 16;
            int64_t m = std::max(st.strides[4] * sd[4], dt.strides[4] * dd[4]);
            for (int a : {3, 2, 0}) { st.strides[a] = dt.strides[a] = m; m *= std::max(sd[a], dd[a]); } }
        st.size = dt.size = 1;
        for (int i = 0; i < 5; ++i) st.size += st.strides[i] * (sd[i] - 1), dt.size += dt.strides[i] * (dd[i] - 1);
        if (st.size * sizeof(Type) > (size_t {1} << 44) || dt.size * sizeof(Type) > (size_t {1} << 44)) { ++counts[8]; return; }
    }
    detail::convolution_problem problem;
    problem.src = {type, st.dims, st.strides};
    problem.dst = {type, dt.dims, dt.strides};
    problem.weights.type = type;
    problem.weights.dims = {sd[1], 1, 1, 1, 1, size};
    if (pick(0, 1)) problem.weights.strides = {size, 1, 1, size, size, 1};
    else problem.weights.strides = {1, 1, 1, size * sd[1] * 2, size * sd[1] * 2, sd[1] * 2};
    const int64_t wsize = 1 + problem.weights.strides[0] * (sd[1] - 1) + problem.weights.strides[5] * (size - 1);
    emu_weights_size = wsize;
    problem.strides = {1, 1, 1};
    problem.pads_begin = {0, 0, pad};

    const int extra = 16 / sizeof(Type);
    auto hold = [&](const arranged &t, buffer &b, char *&memory, bool shifted) {
        b.element = sizeof(Type); b.hi = t.size; b.sparse = big;
        const size_t bytes = (t.size + extra) * sizeof(Type) + 64;
        if (big) memory = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        else memory = (char *)std::aligned_alloc(64, (bytes + 63) / 64 * 64);
        if (memory == MAP_FAILED) fail("mmap");
        b.base = memory + (shifted ? sizeof(Type) : 0);
        if (!big) { b.valid.assign(t.size, 0); b.written.assign(t.size, 0);
            for (int64_t i = 0; i < t.size; ++i) ((Type *)b.base)[i] = make<Type>(NAN); }
    };
    auto each = [](const arranged &t, auto f) {
        for (int64_t n = 0; n < t.dims[0]; ++n) for (int64_t c = 0; c < t.dims[1]; ++c) for (int64_t d = 0; d < t.dims[2]; ++d)
            for (int64_t h = 0; h < t.dims[3]; ++h) for (int64_t w = 0; w < t.dims[4]; ++w)
                f(n, c, d, h, w, n * t.strides[0] + c * t.strides[1] + d * t.strides[2] + h * t.strides[3] + w * t.strides[4]);
    };
    auto number = [&]() -> double {
        if (mode >= 2 && pick(0, 200) == 0) return pick(0, 2) == 0 ? NAN : pick(0, 1) ? INFINITY : -INFINITY;
        if (mode == 1 || mode == 3) return std::normal_distribution<double>()(rng);
        return pick(-3, 3);
    };
    std::vector<Type> src_values, dst_values;
    each(st, [&](auto...) { src_values.push_back(make<Type>(number())); });
    each(dt, [&](auto...) { dst_values.push_back(make<Type>(number())); });
    std::vector<Type> weights(wsize, make<Type>(NAN));
    for (int64_t c = 0; c < sd[1]; ++c) for (int e = 0; e < size; ++e)
        weights[c * problem.weights.strides[0] + e * problem.weights.strides[5]]
                = make<Type>(mode == 1 || mode == 3 ? std::normal_distribution<double>()(rng) : mode == 2 && pick(0, 2000) == 0 ? INFINITY : pick(-3, 3));
    const int mp = (const int[]) {1, 2, 7, 132}[pick(0, 3)];
    const int chain = (const int[]) {16, 64, 256, 1024}[pick(0, 3)];
    for (int way = 0; way < 2; ++way) {
        const bool of_weights = way == 1;
        problem.direction = of_weights ? detail::convolution_direction::backward_weights : to_src ? detail::convolution_direction::backward_data : detail::convolution_direction::forward;
        const depthwise_shape shape = depthwise_shape_of(problem);
        (void)0;
        int widest = 1;
        if (sizeof(sum) == 4 && divides(2, st, 1) && divides(2, dt, 1)) widest = 2;
        if (way == 0) ++counts[widest == 2 ? 3 : 4];
        std::vector<std::vector<Type>> results;
        std::vector<std::vector<sum>> sums;
        for (int variant = 0; variant < 2; ++variant) {
            const bool whole = variant == 0;
            depthwise_rows_nxc cut;
            cut.vector = whole ? widest : 1;
            buffer sb, db; char *sm, *dm;
            hold(st, sb, sm, !whole); hold(dt, db, dm, !whole);
            size_t at = 0;
            const bool src_read = of_weights || !to_src, dst_read = of_weights || to_src;
            each(st, [&](auto, auto, auto, auto, auto, int64_t i) { if (big) sb.far[i] = 0; else sb.valid[i] = 1; if (src_read) ((Type *)sb.base)[i] = src_values[at]; ++at; });
            at = 0;
            each(dt, [&](auto, auto, auto, auto, auto, int64_t i) { if (big) db.far[i] = 0; else db.valid[i] = 1; if (dst_read) ((Type *)db.base)[i] = dst_values[at]; ++at; });
            buffers = {&sb, &db};
            emu_exact = 0;
            use_fibers = true;
            depthwise_pointers p;
            p.read = to_src && !of_weights ? db.base : sb.base;
            p.written = to_src && !of_weights ? sb.base : db.base;
            p.weights = weights.data();
            if (!of_weights) {
                if (!cut_rows_nxc(cut, shape, widest, mp)) fail("cut");
                launch_depthwise_rows_nxc_data(type, shape, cut, p, launch_stream {});
                if (mode < 2 && emu_exact != 0) fail("exact elements of finite numbers");
                std::vector<Type> got;
                const arranged &wt = to_src ? st : dt;
                buffer &wb = to_src ? sb : db;
                each(wt, [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t w, int64_t i) {
                    const int times = big ? wb.far[i] : wb.written[i];
                    if (times != 1 && !(mode >= 2 && times == 2)) fail("writes of an element");
                    const Type v = ((Type *)wb.base)[i];
                    got.push_back(v);
                    double want = 0, bound = 0;
                    for (int e = 0; e < size; ++e) {
                        const int64_t x = to_src ? w + pad - e : w - pad + e;
                        const auto &rd = to_src ? dd : sd;
                        if (x < 0 || x >= rd[4]) continue;
                        const auto &rv = to_src ? dst_values : src_values;
                        const double r = value(rv[(((n * rd[1] + c) * rd[2] + d) * rd[3] + h) * rd[4] + x]);
                        const double g = value(weights[c * problem.weights.strides[0] + e * problem.weights.strides[5]]);
                        want += r * g; bound += std::abs(r * g);
                    }
                    const double have = value(v);
                    const double eps = sizeof(Type) == 2 ? 1.0 / 128 : sizeof(Type) == 4 ? 1e-5 : 1e-13;
                    const bool right = !(std::abs(want) < INFINITY) ? want != want ? have != have : have == want
                        : mode == 1 || mode == 3 ? std::abs(have - want) <= eps * bound + (sizeof(Type) == 2 ? 1e-7 : 0) : have == value(make<Type>(want));
                    if (!right) { std::printf("to_src %d size %d c%ld w%ld have %g want %g\n", to_src, size, c, w, have, want); fail("data"); }
                });
                for (size_t i = 0; !big && i < wb.valid.size(); ++i)
                    if (!wb.valid[i] && value(((Type *)wb.base)[i]) == value(((Type *)wb.base)[i])) fail("a gap was written");
                results.push_back(got);
                ++counts[0];
            } else {
                if (!cut_rows_nxc_weights(cut, shape, widest, mp, chain)) fail("cut");
                const int64_t threads = int64_t {cut.parts} * cut.slots;
                const int64_t eachs = (cut.units + threads - 1) / threads;
                if (eachs * cut.piece_runs * 16 > chain && (eachs > 1 )) fail("chain");
                const int64_t count = sd[1] * size * cut.parts;
                std::vector<sum> partials(count + 64, sum(NAN));
                if (mode >= 2) partials.assign(count + 64, sum(12345678));
                emu_partials_size = count;
                p.workspace = partials.data();
                launch_depthwise_rows_nxc_weights(type, shape, cut, p, launch_stream {});
                for (size_t i = 0; mode < 2 && i < partials.size(); ++i)
                    if ((partials[i] != partials[i]) != (i >= (size_t)count)) fail("partials");
                for (int64_t c = 0; c < sd[1]; ++c) for (int e = 0; e < size; ++e) {
                    double have = 0, want = 0, bound = 0;
                    for (int q = 0; q < cut.parts; ++q) have += partials[(c * size + e) * cut.parts + q];
                    for (int64_t n = 0; n < sd[0]; ++n) for (int64_t d = 0; d < dd[2]; ++d) for (int64_t h = 0; h < dd[3]; ++h) for (int64_t w = 0; w < dd[4]; ++w) {
                        const int64_t x = w - pad + e;
                        if (x < 0 || x >= sd[4]) continue;
                        const double t = value(src_values[(((n * sd[1] + c) * sd[2] + d) * sd[3] + h) * sd[4] + x]) * value(dst_values[(((n * dd[1] + c) * dd[2] + d) * dd[3] + h) * dd[4] + w]);
                        want += t; bound += std::abs(t);
                    }
                    // Not finite: the second launch takes it again; finite where it must not be would be wrong.
                    bool right = !(std::abs(have) < INFINITY) ? mode >= 2 : (mode == 1 || mode == 3) ? std::abs(have - want) <= (sizeof(Type) == 8 ? 1e-12 : 1e-4) * bound : have == want;
                    if (!right) { std::printf("c%ld k %d have %g want %g\n", c, e, have, want); fail("weights"); }
                }
                partials.resize(count);
                sums.push_back(partials);
                ++counts[1];
            }
            if (big) { munmap(sm, (st.size + extra) * sizeof(Type) + 64); munmap(dm, (dt.size + extra) * sizeof(Type) + 64); }
            else { std::free(sm); std::free(dm); }
        }
        if (results.size() == 2) {
            bool differ = false;
            for (size_t j = 0; j < results[0].size(); ++j) differ |= !same(results[0][j], results[1][j]);
            if (differ) { if (mode == 3) ++counts[to_src ? 10 : 11]; else fail("data: bits of variants"); }
            if (mode == 3 && widest == 2) ++counts[to_src ? 12 : 13];
        }
        if (sums.size() == 2) { if (sums[0].size() != sums[1].size()) fail("sizes"); for (size_t j = 0; j < sums[0].size(); ++j) if (!(sums[0][j] == sums[1][j] || (sums[0][j] != sums[0][j] && sums[1][j] != sums[1][j]))) fail("weights: bits of variants"); ++counts[2]; }
    }
    tap_types[size] = true;
}
int main(int argc, char **argv) {
    const int trials = std::atoi(argv[1]);
    rng.seed(std::atoi(argv[2]));
    const double stop = argc > 3 ? std::atof(argv[3]) : 1e9;
    const auto begin = time(nullptr);
    int t = 0;
    for (; t < trials && time(nullptr) - begin < stop; ++t) {
        const bool big = t % 20 == 0;
        const int mode = t % 3 == 0 ? 1 : t % 5 == 0 ? 2 : t % 7 == 0 ? 3 : 0;
        switch (pick(0, 3)) {
            case 0: one<float>(data_type::f32, mode, big); break;
            case 1: one<__nv_bfloat16>(data_type::bf16, mode, big); break;
            case 2: one<__half>(data_type::f16, mode, big); break;
            default: one<double>(data_type::f64, mode, big);
        }
        if (big) ++counts[5];
    }
    int sizes = 0; for (bool b : tap_types) sizes += b;
    std::printf("problems %d (vector 2: %ld, 1: %ld), far %ld of which skipped %ld, tap counts met %d, data runs %ld, weights runs %ld, weights pairs %ld, blocks %lu, accesses %lld; Inf+floats problems with vector 2: to_src %ld of which bits differ %ld, forward %ld differ %ld\n", t, counts[3], counts[4], counts[5], counts[8], sizes, counts[0], counts[1], counts[2], blocks_run, checks, counts[12], counts[10], counts[13], counts[11]);
}
