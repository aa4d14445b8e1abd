// The cache of compiled partitions: hits share their plans, capacity bounds
// it, and the least recently used goes first.
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/executable.hpp"
#include "cpu/interpolation/separable.hpp"
#include "kernel/engine_impl.hpp"
#include "kernel/executable_cache.hpp"
#include "support/op_builders.hpp"

namespace gradnn::test {
namespace {

class cache : public testing::Test {
protected:
    cache() : capacity_(get_compiled_partition_cache_capacity()) {
        set_compiled_partition_cache_capacity(0); // empties it
        set_compiled_partition_cache_capacity(capacity_);
    }
    ~cache() override { set_compiled_partition_cache_capacity(capacity_); }

    /// What the cache shares: the same pointer means a hit.
    static const void *program_of(
            const op &the_op, const std::string &kernel = "") {
        const forced_kernel forced(kernel);
        const auto c = compile(the_op, shared_engine(engine::kind::cpu));
        // Kept, so that no later one can have the same address.
        static std::vector<compiled_partition> kept;
        kept.push_back(c);
        return detail::access::impl(c)->program.get();
    }

    static op upsample(
            int64_t n, size_t first_id = 0, const std::string &name = "up") {
        using lt = logical_tensor;
        op result(first_id, op::kind::InterpolateBackward,
                {lt(first_id, data_type::f32, sizes {n, 2, 4},
                         layout_type::strided),
                        lt(first_id + 1, data_type::f32, sizes {n, 2, 8},
                                layout_type::strided)},
                {lt(first_id + 2, data_type::f32, sizes {n, 2, 4},
                        layout_type::strided)},
                name);
        result.set_attr<std::string>(op::attr::mode, "linear");
        result.set_attr<std::string>(op::attr::data_format, "NCX");
        result.set_attr(op::attr::sizes, sizes {8});
        return result;
    }

private:
    int capacity_;
};

TEST_F(cache, capacity_is_settable) {
    EXPECT_EQ(get_compiled_partition_cache_capacity(), 1024);
    set_compiled_partition_cache_capacity(3);
    EXPECT_EQ(get_compiled_partition_cache_capacity(), 3);
    try {
        set_compiled_partition_cache_capacity(-1);
        FAIL();
    } catch (const error &failure) {
        EXPECT_EQ(failure.status, status::invalid_arguments);
        EXPECT_NE(std::string(failure.what()).find("-1"), std::string::npos);
    }
}

TEST_F(cache, equal_partitions_share) {
    const void *const first = program_of(upsample(1));
    EXPECT_EQ(program_of(upsample(1)), first);
    // Ids and names are not part of what is compiled.
    EXPECT_EQ(program_of(upsample(1, 40, "other")), first);
}

TEST_F(cache, what_differs_is_compiled_again) {
    const void *const first = program_of(upsample(1));
    EXPECT_NE(program_of(upsample(2)), first);
    op other = upsample(1);
    other.set_attr<std::string>(op::attr::mode, "nearest");
    EXPECT_NE(program_of(other), first);
    const op full = upsample(1);
    op strided(0, full.get_kind(),
            {full.get_inputs()[0],
                    logical_tensor(1, data_type::f32, sizes {1, 2, 8},
                            sizes {20, 10, 1})},
            full.get_outputs());
    for (const auto &[name, value] : full.get_attrs())
        std::visit([&, key = name](const auto &v) { strided.set_attr(key, v); },
                value);
    EXPECT_NE(program_of(strided), first);
    for (const std::string &kernel :
            kernel_names(engine::kind::cpu, "interpolation")) {
        // Which refuse it.
        if (kernel == "interpolation.copy" || kernel == "interpolation.scatter")
            continue;
        EXPECT_NE(program_of(upsample(1), kernel), first);
    }
}

TEST_F(cache, scales_that_print_alike_differ) {
    const auto scaled = [&](float scale) {
        op result = upsample(1);
        op other(0, result.get_kind(), result.get_inputs(),
                result.get_outputs());
        for (const auto &[name, value] : result.get_attrs())
            if (name != op::attr::sizes)
                std::visit([&, key = name](
                                   const auto &v) { other.set_attr(key, v); },
                        value);
        other.set_attr(op::attr::scales, std::vector<float> {scale});
        other.set_attr<std::string>(op::attr::scale_rule, "given");
        return program_of(other);
    };
    EXPECT_NE(scaled(2.0F), scaled(2.0000002F));
    EXPECT_EQ(scaled(2.0F), scaled(2.0F));
}

TEST_F(cache, ratios_that_print_alike_differ) {
    const auto by_ratio = [&](double ratio) {
        op result = upsample(1);
        result.set_attr<std::string>(op::attr::scale_rule, "ratios");
        result.set_attr(op::attr::ratios, std::vector<double> {ratio});
        return program_of(result);
    };
    EXPECT_NE(by_ratio(0.5), by_ratio(0.5000000000000001));
    EXPECT_EQ(by_ratio(0.5), by_ratio(0.5));
}

TEST_F(cache, least_recently_used_goes_first) {
    set_compiled_partition_cache_capacity(2);
    const void *const one = program_of(upsample(1));
    const void *const two = program_of(upsample(2));
    EXPECT_EQ(program_of(upsample(1)), one); // 2 is the oldest now
    const void *const three = program_of(upsample(3));
    EXPECT_EQ(program_of(upsample(1)), one);
    EXPECT_EQ(program_of(upsample(3)), three);
    EXPECT_NE(program_of(upsample(2)), two);
}

TEST_F(cache, zero_turns_it_off) {
    set_compiled_partition_cache_capacity(0);
    const void *const first = program_of(upsample(1));
    EXPECT_NE(program_of(upsample(1)), first);
}

TEST_F(cache, failures_are_not_kept) {
    const forced_kernel unknown("no.such");
    EXPECT_THROW(compile(upsample(9), shared_engine(engine::kind::cpu)), error);
    EXPECT_THROW(compile(upsample(9), shared_engine(engine::kind::cpu)), error);
}

// What was compiled for an engine of its own leaves with it, and nothing else.
TEST_F(cache, forgets_what_an_owner_compiled) {
    const size_t owner = detail::new_cache_owner();
    const size_t other = detail::new_cache_owner();
    EXPECT_NE(owner, 0U);
    EXPECT_NE(owner, other);
    const auto kept = [](const char *key, size_t of) {
        return detail::keep_cached(
                key, std::make_shared<detail::executable>(), 0, of);
    };
    const std::weak_ptr<const detail::executable> first = kept("first", owner);
    const std::weak_ptr<const detail::executable> second
            = kept("second", owner);
    const auto others = kept("third", other);
    const auto shared = kept("fourth", 0);
    EXPECT_EQ(detail::find_cached("second"), second.lock());
    detail::drop_cached(owner);
    EXPECT_TRUE(first.expired());
    EXPECT_TRUE(second.expired());
    EXPECT_EQ(detail::find_cached("first"), nullptr);
    EXPECT_EQ(detail::find_cached("third"), others);
    EXPECT_EQ(detail::find_cached("fourth"), shared);
    set_compiled_partition_cache_capacity(1);
    EXPECT_EQ(detail::find_cached("third"), nullptr);
    EXPECT_EQ(detail::find_cached("fourth"), shared);
}

// Tables of long axes must not fill the memory where their number is small.
TEST_F(cache, is_bounded_by_the_bytes_of_tables) {
    const auto kept = [](const char *key, size_t bytes) {
        return std::weak_ptr(detail::keep_cached(
                key, std::make_shared<detail::executable>(), bytes));
    };
    constexpr size_t most = detail::most_cached_table_bytes;
    const auto first = kept("first", most / 2);
    const auto second = kept("second", most / 2);
    EXPECT_FALSE(first.expired());
    const auto third = kept("third", 1);
    EXPECT_TRUE(first.expired());
    EXPECT_FALSE(second.expired());
    const auto large = kept("large", 2 * most);
    EXPECT_TRUE(second.expired());
    EXPECT_TRUE(third.expired());
    EXPECT_FALSE(large.expired());
    const auto small = kept("small", 1);
    EXPECT_TRUE(large.expired());
    EXPECT_FALSE(small.expired());
}

// What repeats along an axis is in its plan once, whatever the axis' length;
// coordinates of long axes that repeat nothing are computed; others have tables of
// their places and weights, an entry for each vector of 8 lanes or fewer.
TEST_F(cache, tables_of_long_axes_are_small_and_counted) {
    const auto bytes_of = [](int64_t src, int64_t dst, const char *mode,
                                  int64_t channels = 1,
                                  data_type type = data_type::f32) {
        using lt = logical_tensor;
        const auto tensor_of = [&](size_t id, int64_t size) {
            return lt(
                    id, type, sizes {1, size, channels}, layout_type::strided);
        };
        op result(0, op::kind::InterpolateBackward,
                {tensor_of(0, src), tensor_of(1, dst)}, {tensor_of(2, src)});
        result.set_attr<std::string>(op::attr::mode, mode);
        result.set_attr(op::attr::sizes, sizes {dst});
        result.set_attr<std::string>(op::attr::data_format, "NXC");
        const auto c = compile(result, shared_engine(engine::kind::cpu));
        return detail::access::impl(c)->program->table_bytes;
    };
    const int64_t narrower
            = 8 / std::min<int64_t>(cpu::separable_lanes(data_type::f32), 8);
    for (const char *mode : {"linear", "nearest"}) {
        const int64_t n = 1 << 21;
        for (const auto &[src, dst] : std::vector<std::pair<int64_t, int64_t>> {
                     {n, 2 * n}, {2 * n, n}, {n, 3 * n / 2}, {n, 3 * n}})
            EXPECT_LT(bytes_of(src, dst, mode),
                    static_cast<size_t>((src + dst) * narrower * 4 / 5))
                    << mode << ' ' << src << ' ' << dst;
        EXPECT_EQ(bytes_of(n, 2, mode), 0U) << mode;
        const bool computed = cpu::separable_lanes(data_type::f32) > 1;
        for (const auto &[src, dst] : std::vector<std::pair<int64_t, int64_t>> {
                     {n, n + 3}, {n + 3, n}, {n, 300007}, {300007, n}})
            for (const auto &[channels, type] :
                    std::vector<std::pair<int64_t, data_type>> {
                            {1, data_type::f32}, {3, data_type::f32},
                            {8, data_type::bf16}, {8, data_type::f64}})
                EXPECT_LT(bytes_of(src, dst, mode, channels, type),
                        computed ? 4096U : 1U << 30)
                        << mode << ' ' << src << ' ' << dst << ' ' << channels;
        EXPECT_GT(bytes_of(n / 32, n / 32 + 1235, mode), 1U << 14) << mode;
    }
    const bool computes = cpu::separable_lanes(data_type::f32) > 1;
    for (const int64_t channels : {1, 3, 20})
        EXPECT_LT(bytes_of(1 << 21, (1 << 21) + 3, "cubic", channels),
                computes ? 4096U : 1U << 30);
}

// A compiled partition outlives its place in the cache, the graph and the
// engine's handle.
TEST_F(cache, compiled_partitions_live_on) {
    compiled_partition c;
    const op the_op = upsample(4);
    {
        const engine e(engine::kind::cpu, 0);
        c = compile(the_op, e);
    }
    set_compiled_partition_cache_capacity(0);
    const engine e(engine::kind::cpu, 0);
    op_run r(the_op, c, e, random_inputs(the_op, 71), {});
    r.execute();
    r.expect_right();
}

} // namespace
} // namespace gradnn::test
