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
#include "gpu/convolution_depthwise_volume.hpp"
#include "gpu/dtype.cuh"
using namespace gradnn;
using namespace gradnn::gpu;
using detail::data_type;

emu_dim threadIdx, blockIdx;
long emu_exact = 0;
static bool use_fibers = false;
static long long checks = 0;

[[noreturn]] static void fail(const char *what) { std::printf("FAIL %s\n", what); std::fflush(stdout); std::abort(); }

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
void emu_run(unsigned grid, unsigned block, const std::function<void()> &body) {
    for (unsigned b = 0; b < grid; ++b) {
        blockIdx.x = b;
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
            for (unsigned t = 0; t < block; ++t) {
                if (finished[t]) continue;
                current = t; threadIdx.x = t;
                swapcontext(&scheduler, &contexts[t]);
            }
        if (block_arrived) fail("barrier");
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

static long counts[8];
template <typename Type>
void one(data_type type, bool volume, int mode /*0 ints, 1 floats, 2 infinite*/, bool big) {
    const bool nxc = (!volume && sizeof(Type) == 8) || big ? true : pick(0, 1);
    const int size = volume ? 3 : (const int[]) {3, 5, 7}[pick(0, 2)];
    const int stride = !volume && nxc && pick(0, 2) == 0 ? 2 : 1;
    std::array<int64_t, 5> sd;
    const int most_c[] = {1, 2, 3, 5, 8, 33, 64, 70, 99};
    do {
        sd = {pick(1, 3), nxc ? most_c[pick(1, 8)] : pick(1, 4), pick(1, pick(0, 2) ? 6 : 40), pick(1, 40), pick(1, 40)};
    } while (sd[0] * sd[1] * sd[2] * sd[3] * sd[4] > (mode == 2 ? 8000 : 40000) || (big && sd[0] * sd[1] * sd[2] * sd[3] * sd[4] > 4000));
    if (pick(0, 1)) sd[4] = (sd[4] + 3) / 4 * 4;
    const bool to_src = pick(0, 1);
    int64_t pads[3] = {};
    std::array<int64_t, 5> dd = sd;
    for (int i = 0; i < 3; ++i) {
        if (!volume && i == 0) continue;
        int tries = 0;
        do {
            if (++tries > 50) { sd[i + 2] = size + 2; }
            pads[i] = pick(0, 3) ? pick(0, size - 1) : pick(-2, size + 1);
            if (i == 2 && pick(0, 1)) pads[i] = size / 2;
            if (stride == 2 && i == 2 && (pads[i] - size / 2) % 2 != 0) ++pads[i];
            const int pe = pick(0, 3) ? pick(0, size - 1) : pick(-2, size + 1);
            dd[i + 2] = (sd[i + 2] + pads[i] + pe - size) / stride + 1;
            if (sd[i + 2] + pads[i] + pe - size < 0) dd[i + 2] = 0;
        } while (dd[i + 2] < 1);
    }
    const int multiple = pick(0, 1) ? 1 : pick(0, 1) ? 2 : 8;
    arranged st = layout(sd, nxc, multiple), dt = layout(dd, nxc, multiple);
    if (big) { // images, depths or rows far apart
        int64_t far = int64_t {1} << 32;
        for (int axis : {3, 2, 0}) if (pick(0, 1)) { st.strides[axis] += far / (int64_t)sizeof(Type) / 8 * 8; dt.strides[axis] += far / (int64_t)sizeof(Type) / 8 * 8; }
        st.size = dt.size = 1;
        for (int i = 0; i < 5; ++i) st.size += st.strides[i] * (sd[i] - 1), dt.size += dt.strides[i] * (dd[i] - 1);
        if (st.size * sizeof(Type) > (size_t {1} << 42) || dt.size * sizeof(Type) > (size_t {1} << 42)) return;
    }
    detail::convolution_problem problem;
    problem.src = {type, st.dims, st.strides};
    problem.dst = {type, dt.dims, dt.strides};
    const int kd = volume ? 3 : 1;
    problem.weights.type = type;
    problem.weights.dims = {sd[1], 1, 1, kd, size, size};
    int64_t wsize = 0;
    if (pick(0, 1)) problem.weights.strides = {int64_t {kd} * size * size, 1, 1, size * size, size, 1};
    else problem.weights.strides = {1, 1, 1, size * size * sd[1] * 2, size * sd[1] * 2, sd[1] * 2};
    for (int i : {0, 3, 4, 5}) wsize += problem.weights.strides[i] * (problem.weights.dims[i] - 1);
    ++wsize;
    problem.strides = {1, stride, stride};
    problem.pads_begin = {pads[0], pads[1], pads[2]};

    // What is read and written of the data kernel: src and dst.
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
        if (mode == 1) return std::normal_distribution<double>()(rng);
        if (mode == 2 && pick(0, 60) == 0) return pick(0, 2) == 0 ? NAN : pick(0, 1) ? INFINITY : -INFINITY;
        return pick(-3, 3);
    };
    std::vector<Type> src_values, dst_values;
    each(st, [&](auto...) { src_values.push_back(make<Type>(number())); });
    each(dt, [&](auto...) { dst_values.push_back(make<Type>(number())); });
    std::vector<Type> weights(wsize, make<Type>(NAN));
    for (int64_t c = 0; c < sd[1]; ++c) for (int a = 0; a < kd; ++a) for (int b = 0; b < size; ++b) for (int e = 0; e < size; ++e)
        weights[c * problem.weights.strides[0] + a * problem.weights.strides[3] + b * problem.weights.strides[4] + e * problem.weights.strides[5]]
                = make<Type>(mode == 1 ? std::normal_distribution<double>()(rng) : pick(-3, 3));
    const int mp = (const int[]) {1, 2, 7, 132}[pick(0, 3)];
    const int chain = (const int[]) {8, 64, 256, 1024}[pick(0, 3)];
    const bool of_weights_ok = stride == 1 && !big;
    for (int way = 0; way < (of_weights_ok ? 2 : 1); ++way) {
        const bool of_weights = way == 1;
        problem.direction = of_weights ? detail::convolution_direction::backward_weights : to_src ? detail::convolution_direction::backward_data : detail::convolution_direction::forward;
        const depthwise_shape shape = depthwise_shape_of(problem);
        if (volume ? !volume_takes(shape) : !walk_takes(shape)) { if (stride == 2 && !to_src) { ++counts[7]; return; } fail("not taken"); }
        std::vector<std::vector<Type>> results;
        std::vector<std::vector<sum_of<Type>>> sums;
        for (int variant = 0; variant < (nxc ? 2 : 3); ++variant) {
            const bool whole = variant != 1;
            depthwise_walk cut;
            cut.channels_last = nxc; cut.sum_bytes = sizeof(sum_of<Type>);
            int widest = 1;
            if (nxc) {
                const int most = volume ? volume_vector(sizeof(Type)) : depthwise_walk_vector(size, cut.sum_bytes);
                if (divides(most, st, 1) && divides(most, dt, 1)) widest = most;
                cut.vector = whole ? widest : 1;
            } else if (volume) {
                cut.together = variant == 0 ? volume_together(shape, sizeof(Type)) : 1;
                if (variant == 2) cut.together = std::min(volume_together(shape, sizeof(Type)), 2);
            } else {
                if (of_weights || variant != 0) { if (!of_weights) continue; }
                cut.dense = variant == 0 && pads[2] == size / 2 && divides(16 / sizeof(Type), st, 4) && divides(16 / sizeof(Type), dt, 4);
                if (!of_weights && !cut.dense) continue;
            }
            const bool shifted = !whole && variant == 1;
            buffer sb, db; char *sm, *dm;
            hold(st, sb, sm, shifted); hold(dt, db, dm, shifted);
            size_t at = 0;
            const bool src_read = of_weights || !to_src, dst_read = of_weights || to_src;
            each(st, [&](auto, auto, auto, auto, auto, int64_t i) { if (big) sb.far[i] = 0; else sb.valid[i] = 1; if (src_read) ((Type *)sb.base)[i] = src_values[at]; ++at; });
            at = 0;
            each(dt, [&](auto, auto, auto, auto, auto, int64_t i) { if (big) db.far[i] = 0; else db.valid[i] = 1; if (dst_read) ((Type *)db.base)[i] = dst_values[at]; ++at; });
            buffers = {&sb, &db};
            emu_exact = 0;
            depthwise_pointers p;
            p.read = to_src && !of_weights ? db.base : sb.base;
            p.written = to_src && !of_weights ? sb.base : db.base;
            p.weights = weights.data();
            if (!of_weights) {
                if (!(volume ? cut_volume(cut, shape, mp) : cut_walk(cut, shape, mp))) fail("cut");
                use_fibers = false;
                if (volume) launch_depthwise_volume_data(type, shape, cut, p, launch_stream {});
                else launch_depthwise_walk_data(type, shape, cut, p, launch_stream {});
                if (mode < 2 && emu_exact != 0) fail("exact elements of finite numbers");
                std::vector<Type> got;
                const arranged &wt = to_src ? st : dt;
                buffer &wb = to_src ? sb : db;
                each(wt, [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t w, int64_t i) {
                    if (big ? wb.far[i] != 1 : wb.written[i] != 1) { std::printf("volume %d nxc %d size %d stride %d to_src %d bytes %zu mode %d variant %d big %d far %d written %d: n%ld c%ld d%ld h%ld w%ld src %ldx%ldx%ldx%ldx%ld dst %ldx%ldx%ld pads %ld %ld %ld; strides src %ld %ld %ld %ld %ld\n", volume, nxc, size, stride, to_src, sizeof(Type), mode, variant, big, big ? wb.far[i] : 0, big ? 0 : wb.written[i], n, c, d, h, w, sd[0], sd[1], sd[2], sd[3], sd[4], dd[2], dd[3], dd[4], pads[0], pads[1], pads[2], st.strides[0], st.strides[1], st.strides[2], st.strides[3], st.strides[4]); fail("writes of an element"); }
                    const Type v = ((Type *)wb.base)[i];
                    got.push_back(v);
                    double want = 0, bound = 0;
                    for (int a = 0; a < kd; ++a) for (int b = 0; b < size; ++b) for (int e = 0; e < size; ++e) {
                        int64_t z, y, x;
                        if (to_src) {
                            z = d + pads[0] - a; y = h + pads[1] - b; x = w + pads[2] - e;
                            if (y % stride || x % stride) continue;
                            y /= stride; x /= stride;
                            if (z < 0 || z >= dd[2] || y < 0 || y >= dd[3] || x < 0 || x >= dd[4]) continue;
                        } else {
                            z = d - pads[0] + a; y = h * stride - pads[1] + b; x = w * stride - pads[2] + e;
                            if (z < 0 || z >= sd[2] || y < 0 || y >= sd[3] || x < 0 || x >= sd[4]) continue;
                        }
                        const auto &rd = to_src ? dd : sd;
                        const auto &rv = to_src ? dst_values : src_values;
                        const double r = value(rv[(((n * rd[1] + c) * rd[2] + z) * rd[3] + y) * rd[4] + x]);
                        const double g = value(weights[c * problem.weights.strides[0] + a * problem.weights.strides[3] + b * problem.weights.strides[4] + e * problem.weights.strides[5]]);
                        want += r * g; bound += std::abs(r * g);
                    }
                    const double have = value(v);
                    const double eps = sizeof(Type) == 2 ? 1.0 / 128 : sizeof(Type) == 4 ? 1e-5 : 1e-13;
                    const bool right = mode == 1 ? std::abs(have - want) <= eps * bound + (sizeof(Type) == 2 ? 1e-7 : 0) : want != want ? have != have : have == want;
                    if (!right) { std::printf("n%ld c%ld d%ld h%ld w%ld have %g want %g\n", n, c, d, h, w, have, want); fail("data"); }
                });
                for (size_t i = 0; !big && i < wb.valid.size(); ++i)
                    if (!wb.valid[i] && value(((Type *)wb.base)[i]) == value(((Type *)wb.base)[i])) fail("a gap was written");
                results.push_back(got);
                ++counts[0];
            } else if (mode < 2) {
                if (!(volume ? cut_volume_units(cut, shape, widest, mp, chain) : cut_walk_units(cut, shape, widest, mp, chain))) fail("cut");
                const int64_t threads = int64_t {cut.parts} * cut.slots;
                const int64_t eachs = (cut.units + threads - 1) / threads;
                const int width = volume ? 8 : depthwise_walk_weights_run(size, cut.sum_bytes);
                if (eachs > 1 && eachs * cut.strip_rows * width > chain) fail("chain");
                const int taps = kd * size * size;
                std::vector<sum_of<Type>> partials(sd[1] * taps * cut.parts + 64, sum_of<Type>(NAN));
                p.workspace = partials.data();
                use_fibers = true;
                if (volume) launch_depthwise_volume_weights(type, shape, cut, p, launch_stream {});
                else launch_depthwise_walk_weights(type, shape, cut, p, launch_stream {});
                for (size_t i = 0; i < partials.size(); ++i)
                    if ((partials[i] != partials[i]) != (i >= partials.size() - 64)) { std::printf("volume %d nxc %d size %d bytes %zu mode %d variant %d i %zu of %zu value %g lanes %d slots %d parts %u tiles %u units %u vector %d together %d channels %ld src %ldx%ldx%ldx%ld\n", volume, nxc, size, sizeof(Type), mode, variant, i, partials.size(), (double)partials[i], cut.lanes, cut.slots, cut.parts, cut.channel_tiles, cut.units, cut.vector, cut.together, sd[1], sd[0], sd[2], sd[3], sd[4]); fail("partials"); }
                for (int64_t c = 0; c < sd[1]; ++c) for (int a = 0; a < kd; ++a) for (int b = 0; b < size; ++b) for (int e = 0; e < size; ++e) {
                    double have = 0, want = 0, bound = 0;
                    for (uint32_t q = 0; q < cut.parts; ++q) have += partials[(c * taps + (a * size + b) * size + e) * cut.parts + q];
                    for (int64_t n = 0; n < sd[0]; ++n) for (int64_t d = 0; d < dd[2]; ++d) for (int64_t h = 0; h < dd[3]; ++h) for (int64_t w = 0; w < dd[4]; ++w) {
                        const int64_t z = d - pads[0] + a, y = h - pads[1] + b, x = w - pads[2] + e;
                        if (z < 0 || z >= sd[2] || y < 0 || y >= sd[3] || x < 0 || x >= sd[4]) continue;
                        const double t = value(src_values[(((n * sd[1] + c) * sd[2] + z) * sd[3] + y) * sd[4] + x]) * value(dst_values[(((n * dd[1] + c) * dd[2] + d) * dd[3] + h) * dd[4] + w]);
                        want += t; bound += std::abs(t);
                    }
                    const bool right = mode == 1 ? std::abs(have - want) <= (sizeof(Type) == 8 ? 1e-12 : 1e-4) * bound : have == want;
                    if (!right) { std::printf("c%ld k %d %d %d have %g want %g\n", c, a, b, e, have, want); fail("weights"); }
                }
                partials.resize(partials.size() - 64);
                sums.push_back(partials);
                ++counts[1];
            }
            if (big) { munmap(sm, (st.size + extra) * sizeof(Type) + 64); munmap(dm, (dt.size + extra) * sizeof(Type) + 64); }
            else { std::free(sm); std::free(dm); }
        }
        for (size_t i = 1; i < results.size(); ++i)
            for (size_t j = 0; j < results[i].size(); ++j)
                if (!same(results[0][j], results[i][j])) fail("data: bits of variants");
        for (size_t i = 1; i < sums.size(); ++i)
            if (sums[i] != sums[0]) fail("weights: bits of variants");
        if (results.size() > 1 || sums.size() > 1) ++counts[2];
    }
}

int main(int argc, char **argv) {
    const int trials = std::atoi(argv[1]);
    rng.seed(std::atoi(argv[2]));
    for (int t = 0; t < trials; ++t) {
        const bool volume = t % 4 != 3;
        const bool big = t % 40 == 0;
        const int mode = t % 3 == 0 ? 1 : t % 5 == 0 ? 2 : 0;
        switch (pick(0, 3)) {
            case 0: one<float>(data_type::f32, volume, mode, big); break;
            case 1: one<__nv_bfloat16>(data_type::bf16, volume, mode, big); break;
            case 2: one<__half>(data_type::f16, volume, mode, big); break;
            default: one<double>(data_type::f64, volume, mode, big);
        }
        ++counts[volume ? 3 : 4];
        if (big) ++counts[5];
    }
    std::printf("volume problems %ld, walk problems %ld, far apart %ld, data runs %ld, weights runs %ld, variants compared %ld, not taken %ld, accesses checked %lld\n", counts[3], counts[4], counts[5], counts[0], counts[1], counts[2], counts[7], checks);
}
