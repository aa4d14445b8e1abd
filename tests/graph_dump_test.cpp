// Dumps of graphs: every op kind read back unchanged, file names, failures.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gradnn/log.hpp>
#include <unistd.h>

#include "files/json_graph.hpp"
#include "op/graph_json.hpp"
#include "op/op_check.hpp"
#include "op/op_schema.hpp"
#include "support/op_builders.hpp"
#include "support/op_samples.hpp"

namespace gradnn::test {
namespace {

namespace fs = std::filesystem;
using lt = logical_tensor;

void expect_same_tensors(
        const std::vector<lt> &expected, const std::vector<lt> &given) {
    ASSERT_EQ(given.size(), expected.size());
    for (size_t index = 0; index < expected.size(); ++index) {
        EXPECT_EQ(given[index].is_absent(), expected[index].is_absent());
        EXPECT_TRUE(given[index].is_equal(expected[index])) << index;
    }
}

void expect_same(const op &expected, const op &given) {
    EXPECT_EQ(given.get_id(), expected.get_id());
    EXPECT_EQ(given.get_kind(), expected.get_kind());
    EXPECT_EQ(given.get_name(), expected.get_name());
    EXPECT_EQ(given.get_attrs(), expected.get_attrs());
    expect_same_tensors(expected.get_inputs(), given.get_inputs());
    expect_same_tensors(expected.get_outputs(), given.get_outputs());
}

void expect_read_back(const std::vector<op> &ops,
        engine::kind kind = engine::kind::cpu,
        fpmath_mode fpmath = fpmath_mode::strict) {
    const std::string content = detail::graph_json(ops, kind, fpmath);
    SCOPED_TRACE(content);
    const auto read = detail::parse_json_graph(content, "dump");
    EXPECT_EQ(read.engine_kind, kind);
    EXPECT_EQ(read.fpmath, fpmath);
    ASSERT_EQ(read.ops.size(), ops.size());
    for (size_t index = 0; index < ops.size(); ++index)
        expect_same(ops[index], read.ops[index]);
}

/// An op of each kind in a layout and type, checked as add_op leaves it.
std::vector<op> every_kind(const layout &l, data_type type) {
    std::vector<op> ops;
    for (const size_source source : {size_source::sizes_attribute,
                 size_source::scales_attribute, size_source::sizes_input}) {
        interpolation_choice choice;
        choice.source = source;
        ops.push_back(interpolation_op(
                interpolation_named("ragged_2d"), choice, l, type));
        choice.forward = true;
        choice.mode = "cubic";
        choice.antialias = true;
        ops.push_back(interpolation_op(
                interpolation_named("ragged_2d"), choice, l, type));
    }
    for (const op::kind kind : convolution_kinds())
        ops.push_back(
                convolution_op(kind, convolution_named("strided_2d"), l, type));
    for (const op::kind kind :
            {op::kind::BiasAddBackward, op::kind::ReLUBackward, op::kind::Add})
        ops.push_back(plane_op(kind, plane_cases().front(), l, type));
    for (op &each : ops)
        each = detail::op_of(detail::checked(each));
    return ops;
}

TEST(graph_json, every_kind_layout_and_type_reads_back) {
    for (const layout &l : layouts())
        for (const data_type type : float_types())
            for (const op &each : every_kind(l, type)) {
                SCOPED_TRACE(l.name);
                expect_read_back({each});
            }
}

TEST(graph_json, every_kind_is_tried) {
    std::vector<op::kind> kinds;
    for (const op &each : every_kind(layouts()[0], data_type::f32))
        kinds.push_back(each.get_kind());
    for (const detail::op_schema &schema : detail::all_schemas())
        EXPECT_NE(
                std::find(kinds.begin(), kinds.end(), schema.kind), kinds.end())
                << schema.name;
}

TEST(graph_json, modes_and_engines) {
    const op the_op = samples::relu(0, 0, 1, 2);
    for (const fpmath_mode mode : {fpmath_mode::strict, fpmath_mode::bf16,
                 fpmath_mode::f16, fpmath_mode::any, fpmath_mode::tf32})
        expect_read_back({the_op}, engine::kind::gpu, mode);
}

TEST(graph_json, awkward_values_read_back) {
    // Absent ports, properties, open layouts, large ids, names.
    const lt open(std::numeric_limits<size_t>::max() / 2, data_type::bf16,
            {2, lt::unknown_dim, 4}, layout_type::any,
            lt::property_type::variable);
    op odd(std::numeric_limits<size_t>::max() / 2, op::kind::ConvBackward,
            {lt(0, data_type::f32), lt(1, data_type::f64, 4, layout_type::any),
                    lt(2, data_type::f16, {0, 3}, layout_type::strided,
                            lt::property_type::constant),
                    open},
            {lt(), lt(3, data_type::s32, lt::dims {}, layout_type::strided),
                    lt(4, data_type::f32, {5, 6, 7}, layout_type::undef),
                    lt(5, data_type::f32, {2, 3}, lt::dims {1, 7})},
            "a \"quoted\\\" n\u00e4me, \U0001F600");
    odd.set_attr(op::attr::scales,
            std::vector<float> {0.1F, 1.0F / 3.0F, 1e-45F, 3.4028235e38F});
    odd.set_attr(op::attr::ratios,
            std::vector<double> {
                    0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308});
    odd.set_attr(op::attr::strides,
            std::vector<int64_t> {std::numeric_limits<int64_t>::max(),
                    std::numeric_limits<int64_t>::min()});
    odd.set_attr(op::attr::pads_begin, std::vector<int64_t> {});
    odd.set_attr(op::attr::use_dst, false);
    expect_read_back({odd});
}

// Broken UTF-8 would make the whole file unreadable.
TEST(graph_json, names_that_are_not_utf8) {
    for (const std::string bad : {"\xff", "\xc0\x80", "\xe0\x80\x80",
                 "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80",
                 "\xe2\x82"}) {
        const op the_op(1, op::kind::ReLUBackward,
                samples::relu(0, 0, 1, 2).get_inputs(),
                samples::relu(0, 0, 1, 2).get_outputs(), "a" + bad + "b");
        const auto read = detail::parse_json_graph(
                detail::graph_json(
                        {&the_op, 1}, engine::kind::cpu, fpmath_mode::strict),
                "dump");
        std::string expected = "a";
        for (size_t index = 0; index < bad.size(); ++index)
            expected += "\ufffd";
        EXPECT_EQ(read.ops[0].get_name(), expected + "b");
    }
}

/// A folder of its own while it lives; dumps go nowhere after it.
class dump_test : public testing::Test {
protected:
    dump_test() {
        std::string pattern
                = (fs::temp_directory_path() / "dump_XXXXXX").string();
        folder_ = ::mkdtemp(pattern.data());
        set_log_callback(
                [](const char *line, void *context) {
                    static_cast<std::vector<std::string> *>(context)
                            ->emplace_back(line);
                },
                &lines_);
    }
    ~dump_test() override {
        set_graph_dump("");
        set_verbose(0);
        set_log_callback(nullptr);
        fs::remove_all(folder_);
    }

    std::vector<std::string> files() const {
        std::vector<std::string> names;
        for (const auto &entry : fs::recursive_directory_iterator(folder_))
            if (entry.is_regular_file())
                names.push_back(fs::relative(entry.path(), folder_).string());
        std::sort(names.begin(), names.end());
        return names;
    }

    std::string folder_;
    std::vector<std::string> lines_;
};

std::string process() {
    return std::to_string(::getpid());
}

TEST_F(dump_test, finalized_graphs) {
    set_graph_dump(folder_);
    graph built(engine::kind::cpu, fpmath_mode::bf16);
    // Added against the order in which they run.
    built.add_op(samples::relu(1, 3, 2, 4));
    built.add_op(samples::relu(0, 0, 1, 2));
    built.finalize();
    built.finalize();
    const size_t first = built.get_partitions().front().get_id();
    const std::string name
            = "graph-" + process() + "-" + std::to_string(first) + ".json";
    ASSERT_EQ(files(), std::vector<std::string> {name});
    const auto read = detail::read_json_graph(folder_ + "/" + name);
    EXPECT_EQ(read.fpmath, fpmath_mode::bf16);
    ASSERT_EQ(read.ops.size(), 2U);
    expect_same(detail::op_of(detail::checked(samples::relu(0, 0, 1, 2))),
            read.ops[0]);
    expect_same(detail::op_of(detail::checked(samples::relu(1, 3, 2, 4))),
            read.ops[1]);
    EXPECT_EQ(read.input_ports, (std::vector<size_t> {0, 1, 3}));
    EXPECT_EQ(read.output_ports, std::vector<size_t> {4});
    // Partitions of a graph are not written once more.
    const op the_op = samples::relu(0, 0, 1, 2);
    (void)built.get_partitions().front().compile(the_op.get_inputs(),
            the_op.get_outputs(), shared_engine(engine::kind::cpu));
    EXPECT_EQ(files().size(), 1U);
    EXPECT_TRUE(lines_.empty());
}

TEST_F(dump_test, partitions_without_a_graph) {
    const std::string prefix = folder_ + "/rank0-";
    set_graph_dump(prefix);
    set_verbose(1);
    const op the_op = samples::relu(0, 0, 1, 2);
    const engine e = shared_engine(engine::kind::cpu);
    const partition made(the_op, engine::kind::cpu);
    EXPECT_TRUE(files().empty());
    const auto compiled
            = made.compile(the_op.get_inputs(), the_op.get_outputs(), e);
    // The same once more, by the same partition and by another: nothing new.
    (void)made.compile(the_op.get_inputs(), the_op.get_outputs(), e);
    (void)partition(the_op, engine::kind::cpu)
            .compile(the_op.get_inputs(), the_op.get_outputs(), e);
    const std::string name = "rank0-partition-" + process() + "-"
            + std::to_string(made.get_id()) + "-"
            + std::to_string(compiled.get_info().id) + ".json";
    ASSERT_EQ(files(), std::vector<std::string> {name});
    expect_same(detail::op_of(detail::checked(the_op)),
            detail::read_json_graph(folder_ + "/" + name).ops.at(0));
    const auto line = std::find_if(
            lines_.begin(), lines_.end(), [](const std::string &each) {
                return each.rfind("gradnn,dump,cpu,", 0) == 0;
            });
    ASSERT_NE(line, lines_.end());
    EXPECT_NE(line->find(folder_ + "/" + name), std::string::npos) << *line;
    // Another shape is another file.
    const op larger(0, op::kind::ReLUBackward,
            {samples::f32(0, {5, 7}), samples::f32(1, {5, 7})},
            {samples::f32(2, {5, 7})});
    (void)partition(larger, engine::kind::cpu)
            .compile(larger.get_inputs(), larger.get_outputs(), e);
    EXPECT_EQ(files().size(), 2U);
    // Off again.
    set_graph_dump("");
    samples::add(the_op);
    graph built(engine::kind::cpu);
    built.add_op(the_op);
    built.finalize();
    EXPECT_EQ(files().size(), 2U);
}

TEST_F(dump_test, modes) {
    const op first = samples::relu(0, 0, 1, 2);
    const op second = samples::relu(1, 2, 1, 3);
    const engine e = shared_engine(engine::kind::cpu);
    const auto compile_all = [&] {
        graph built(engine::kind::cpu);
        built.add_op(first);
        built.add_op(second);
        built.finalize();
        const auto partitions = built.get_partitions();
        (void)partitions[0].compile(first.get_inputs(), first.get_outputs(), e);
        (void)partitions[1].compile(
                second.get_inputs(), second.get_outputs(), e);
    };
    const auto count = [&](const std::string &of) {
        const auto names = files();
        return std::count_if(names.begin(), names.end(),
                [&](const auto &name) { return name.rfind(of, 0) == 0; });
    };
    set_graph_dump(folder_);
    ASSERT_EQ(set_dump_mode(graph_dump_mode::none), status::success);
    compile_all();
    EXPECT_TRUE(files().empty());
    ASSERT_EQ(set_dump_mode(graph_dump_mode::subgraph), status::success);
    compile_all();
    EXPECT_EQ(count("graph-"), 0);
    EXPECT_EQ(count("partition-"), 2);
    ASSERT_EQ(set_dump_mode(graph_dump_mode::graph | graph_dump_mode::subgraph),
            status::success);
    compile_all();
    EXPECT_EQ(count("graph-"), 1);
    EXPECT_EQ(count("partition-"), 2); // the same content once
}

TEST_F(dump_test, failures_are_logged_and_not_thrown) {
    set_graph_dump(folder_ + "/nowhere/");
    graph built(engine::kind::cpu);
    built.add_op(samples::relu(0, 0, 1, 2));
    EXPECT_NO_THROW(built.finalize());
    EXPECT_TRUE(built.is_finalized());
    // At every level: the user asked for a file.
    ASSERT_EQ(lines_.size(), 2U);
    EXPECT_EQ(lines_[1].rfind("gradnn,dump:failed,cpu,", 0), 0U) << lines_[1];
    EXPECT_NE(lines_[1].find("nowhere"), std::string::npos) << lines_[1];
    EXPECT_NE(lines_[1].find("cannot be written"), std::string::npos)
            << lines_[1];
}

} // namespace
} // namespace gradnn::test
