// The documented data-type table of InterpolateBackward: one test a cell, and
// one for every combination outside it, which must be refused by name.
#include <array>

#include <gtest/gtest.h>

#include "support/op_builders.hpp"
#include "support/param_names.hpp"

namespace gradnn::test {
namespace {

struct table_cell {
    engine::kind on;
    std::string mode;
    std::string coordinates;
    size_source source;
    std::string data_format;
    data_type type;
};

std::string source_name(size_source source) {
    switch (source) {
        case size_source::sizes_attribute: return "sizes_attribute";
        case size_source::scales_attribute: return "scales_attribute";
        case size_source::sizes_input: break;
    }
    return "sizes_input";
}

std::string cell_name(const table_cell &cell) {
    return std::string(to_string(cell.on)) + "_" + cell.mode + "_"
            + cell.coordinates + "_" + source_name(cell.source) + "_"
            + cell.data_format + "_" + to_string(cell.type);
}

void PrintTo(const table_cell &cell, std::ostream *out) {
    *out << cell_name(cell);
}

std::vector<table_cell> documented_table() {
    std::vector<table_cell> cells;
    for (const engine::kind kind : engine_kinds())
        for (const char *mode :
                {"nearest", "linear", "bilinear", "trilinear", "cubic"})
            for (const char *coordinates : {"half_pixel", "align_corners"})
                for (const size_source source : {size_source::sizes_attribute,
                             size_source::scales_attribute,
                             size_source::sizes_input})
                    for (const char *format : {"NCX", "NXC"})
                        for (const data_type type : {data_type::f32,
                                     data_type::bf16, data_type::f16})
                            cells.push_back({kind, mode, coordinates, source,
                                    format, type});
    return cells;
}

class interpolation_table : public testing::TestWithParam<table_cell> {};

// Every cell at spatial rank 1, 2 and 3: any of the linear modes is n-linear.
TEST_P(interpolation_table, cell) {
    const table_cell &cell = GetParam();
    const layout &l = layouts()[cell.data_format == "NCX" ? 0 : 1];
    for (const char *name : {"up_1d", "ragged_2d", "deep_up_3d"}) {
        SCOPED_TRACE(name);
        const op the_op = interpolation_op(interpolation_named(name),
                {cell.mode, cell.coordinates, cell.source}, l, cell.type);
        EXPECT_TRUE(partition_of(the_op, cell.on).is_supported());
        EXPECT_TRUE(run_forced(
                the_op, shared_engine(cell.on), "", seed_of(cell_name(cell))));
    }
}

INSTANTIATE_TEST_SUITE_P(documented, interpolation_table,
        testing::ValuesIn(documented_table()),
        [](const auto &each) { return cell_name(each.param); });

// What the table does not hold.

struct outside_table {
    std::string name;
    std::array<data_type, 3> types; ///< src, diff_dst, diff_src
    data_type sizes_type;
    std::string port; ///< that the message must name
    std::string given;
};

void PrintTo(const outside_table &cell, std::ostream *out) {
    *out << cell.name;
}

std::vector<outside_table> refused_types() {
    using t = data_type;
    std::vector<outside_table> cells;
    const auto floats = float_types();
    // Every mixture of float types.
    for (const t src : floats)
        for (const t diff_dst : floats)
            for (const t diff_src : floats) {
                if (src == diff_dst && src == diff_src) continue;
                const bool first = src != diff_dst;
                cells.push_back({std::string("mixed_") + to_string(src) + "_"
                                + to_string(diff_dst) + "_"
                                + to_string(diff_src),
                        {src, diff_dst, diff_src}, t::s32,
                        first ? "input 1 (diff_dst)" : "output 0 (diff_src)",
                        to_string(first ? diff_dst : diff_src)});
            }
    for (const t type : {t::s32, t::s8, t::u8, t::boolean, t::undef})
        cells.push_back({std::string("all_") + to_string(type),
                {type, type, type}, t::s32, "input 0 (src)", to_string(type)});
    for (const t type : {t::s32, t::s8, t::u8, t::boolean, t::undef}) {
        cells.push_back({std::string("diff_dst_") + to_string(type),
                {t::f32, type, t::f32}, t::s32, "input 1 (diff_dst)",
                to_string(type)});
        cells.push_back({std::string("diff_src_") + to_string(type),
                {t::f32, t::f32, type}, t::s32, "output 0 (diff_src)",
                to_string(type)});
    }
    for (const t type : {t::f32, t::bf16, t::f16, t::f64, t::s8, t::u8,
                 t::boolean, t::undef})
        cells.push_back({std::string("sizes_") + to_string(type),
                {t::f32, t::f32, t::f32}, type, "input 2 (sizes)",
                to_string(type)});
    return cells;
}

class interpolation_outside_table
    : public testing::TestWithParam<outside_table> {};

TEST_P(interpolation_outside_table, is_refused) {
    const outside_table &cell = GetParam();
    using lt = logical_tensor;
    const sizes src {1, 2, 4, 4};
    const sizes dst {1, 2, 8, 8};
    op the_op(7, op::kind::InterpolateBackward,
            {lt(0, cell.types[0], src, layout_type::strided),
                    lt(1, cell.types[1], dst, layout_type::strided),
                    lt(2, cell.sizes_type, sizes {2}, layout_type::strided)},
            {lt(3, cell.types[2], src, layout_type::strided)}, "up");
    the_op.set_attr<std::string>(op::attr::mode, "nearest");
    the_op.set_attr<std::string>(op::attr::data_format, "NCX");
    graph g(engine::kind::cpu);
    try {
        g.add_op(the_op);
        FAIL() << "was accepted";
    } catch (const error &failure) {
        const std::string message = failure.what();
        EXPECT_EQ(failure.status, status::invalid_data_type) << message;
        EXPECT_NE(message.find("InterpolateBackward"), std::string::npos)
                << message;
        EXPECT_NE(message.find("up"), std::string::npos) << message;
        EXPECT_NE(message.find(cell.port), std::string::npos) << message;
        EXPECT_NE(message.find(" is " + cell.given), std::string::npos)
                << message;
        EXPECT_NE(message.find("allowed"), std::string::npos) << message;
    }
    EXPECT_EQ(g.add_op(the_op, false), status::invalid_data_type);
}

INSTANTIATE_TEST_SUITE_P(data_types, interpolation_outside_table,
        testing::ValuesIn(refused_types()),
        [](const auto &each) { return each.param.name; });

} // namespace
} // namespace gradnn::test
