#include "runner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "files/tensor_data.hpp"
#include "support/op_runner.hpp"
#include "support/random.hpp"

namespace gradnn::fuzz {

namespace {

// No problem here is so large that it needs more.
constexpr size_t most_workspace = size_t {2} << 30;

double value_of(values_kind kind, test::random_source &numbers) {
    const double value = numbers.value();
    switch (kind) {
        case values_kind::mostly_positive: return 0.5 + 0.75 * value;
        case values_kind::of_either_sign: return value;
        case values_kind::equal: return 0.1;
        case values_kind::sparse:
            return numbers.integer(0, 3) == 0 ? value : 0.0;
        case values_kind::wide:
            return std::ldexp(value, static_cast<int>(numbers.integer(-10, 5)));
        case values_kind::special: break;
    }
    const int64_t choice = numbers.integer(0, 30);
    const double infinity = std::numeric_limits<double>::infinity();
    return choice == 0    ? infinity
            : choice == 1 ? -infinity
            : choice == 2 ? std::numeric_limits<double>::quiet_NaN()
                          : value;
}

/// What a shape input must hold.
std::vector<double> shape_values(const op &the_op) {
    const bool backward = the_op.get_kind() == op::kind::InterpolateBackward;
    const dims shape = backward ? the_op.get_inputs()[1].get_dims()
                                : the_op.get_outputs()[0].get_dims();
    if (!backward && the_op.get_kind() != op::kind::Interpolate)
        return {shape.begin(), shape.end()};
    const auto format = the_op.get_attrs().find(op::attr::data_format);
    const bool channels_second = format != the_op.get_attrs().end()
            && std::get<std::string>(format->second) == "NCX";
    return {shape.begin() + (channels_second ? 2 : 1),
            shape.end() - (channels_second ? 0 : 1)};
}

/// InterpolateBackward's src: only its shape counts.
bool is_read(const op &the_op, size_t input) {
    return the_op.get_kind() != op::kind::InterpolateBackward || input != 0;
}

bool names_op(const std::string &message, const problem &of) {
    return std::any_of(of.ops.begin(), of.ops.end(), [&](const op &each) {
        return message.find(to_string(each.get_kind())) != std::string::npos
                && message.find("(op " + std::to_string(each.get_id()) + ")")
                != std::string::npos;
    });
}

logical_tensor compilable(const logical_tensor &lt) {
    if (lt.get_layout_type() != layout_type::undef) return lt;
    return {lt.get_id(), lt.get_data_type(), lt.get_dims(), layout_type::any};
}

} // namespace

void run::fail(const std::string &what) {
    if (finding_.empty()) finding_ = what;
}

void run::note_tensors() {
    for (const op &each : problem_.ops) {
        for (const logical_tensor &lt : each.get_inputs())
            if (!lt.is_absent()) tensors_.emplace(lt.get_id(), entry(lt));
        for (const logical_tensor &lt : each.get_outputs()) {
            if (lt.is_absent()) continue;
            entry &made
                    = tensors_.emplace(lt.get_id(), entry(lt)).first->second;
            made.computed = true;
        }
    }
}

void run::prepare() {
    note_tensors();
    test::random_source numbers(problem_.values_seed);
    for (const op &each : problem_.ops)
        for (size_t port = 0; port < each.get_inputs().size(); ++port) {
            const logical_tensor &lt = each.get_inputs()[port];
            if (lt.is_absent()) continue;
            entry &given = tensors_.at(lt.get_id());
            if (given.computed || !given.image.empty()) continue;
            const logical_tensor stored = without_broadcast(lt);
            std::vector<double> values;
            if (test::is_shape_input(each, port)) {
                values = shape_values(each);
            } else {
                values.resize(
                        static_cast<size_t>(detail::element_count(stored)));
                for (double &value : values)
                    value = value_of(problem_.values, numbers);
            }
            given.image = image_of(stored, values);
        }
}

void run::check_refusal(const error &failure) {
    const std::string message = failure.what();
    if (!names_op(message, problem_))
        fail("an error does not name the op: " + message);
    const bool forced = !problem_.kernel.empty()
            && failure.status == status::unimplemented;
    if (forced && message.find(problem_.kernel) == std::string::npos)
        fail("a refusal does not name the kernel: " + message);
    if (!forced && !problem_.may_refuse)
        fail("a valid problem is refused: " + message);
    refused_ = true;
}

void run::execute(const engine &e) {
    execute_tier(e);
    if (e.get_kind() != engine::kind::gpu || refused_ || !finding_.empty())
        return;
    ahead_of_time_ = std::make_shared<run>(*this);
    ahead_of_time_->specialise_ = false;
    ahead_of_time_->kernels_.clear();
    ahead_of_time_->execute_tier(e);
}

void run::execute_tier(const engine &e) {
    const test::forced_kernel forced(problem_.kernel);
    try {
        execute_checked(e);
    } catch (const error &failure) {
        fail(std::string("error ") + to_string(failure.status) + ": "
                + failure.what());
    } catch (const std::exception &failure) {
        fail(std::string("an exception that is no gradnn::error: ")
                + failure.what());
    }
    for (auto &[id, each] : tensors_)
        each.memory.reset();
}

void run::execute_checked(const engine &e) {
    std::vector<partition> partitions;
    graph built(e.get_kind(), problem_.fpmath);
    try {
        built.set_deterministic(problem_.deterministic);
        compile_settings settings;
        if (!specialise_) settings.specialise = false;
        built.set_compile_settings(settings);
        for (const op &each : problem_.ops)
            built.add_op(each);
        built.finalize();
        partitions = built.get_partitions(partition::policy::debug);
        for (const partition &each : partitions)
            if (!each.is_supported())
                throw error(status::unimplemented, each.unsupported_reason());
    } catch (const error &failure) {
        return check_refusal(failure);
    }
    for (auto &[id, each] : tensors_) {
        if (each.computed) continue;
        const bool on_host = each.lt.get_data_type() == data_type::s32;
        const size_t size = each.lt.get_mem_size();
        each.memory = std::make_shared<buffer>(
                on_host ? test::shared_engine(engine::kind::cpu) : e, size,
                static_cast<size_t>(problem_.misalignment)
                        * static_cast<size_t>(
                                detail::size_of(each.lt.get_data_type())),
                buffer::role::input);
        each.memory->write(each.image);
    }
    for (const partition &each : partitions) {
        execute_step(each, e);
        if (refused_ || !finding_.empty()) return;
    }
    for (const partition &each : built.get_partitions())
        if (each.get_ops_num() > 1 && finding_.empty()) execute_group(each, e);
    check_inputs();
}

/// Several ops at once give the bits that they give one by one, or where they do not say
/// so what the reference does.
void run::execute_group(const partition &each, const engine &e) {
    std::map<size_t, std::vector<std::byte>> one_by_one;
    for (const logical_tensor &lt : each.get_output_ports())
        one_by_one[lt.get_id()] = tensors_.at(lt.get_id()).image;
    const compiled_partition compiled = execute_step(each, e);
    if (refused_) fail("ops are refused as a group that run one by one");
    const bool other_bits = compiled && !compiled.get_info().bits_of_ops;
    if (other_bits) verify_group(each, compiled);
    for (const auto &[id, image] : one_by_one)
        if (other_bits)
            tensors_.at(id).image = image; // what the ops are compared by
        else if (problem_.deterministic && tensors_.at(id).image != image)
            fail("a group of ops gave tensor " + std::to_string(id)
                    + " other bits than its ops one by one");
}

compiled_partition run::compile(const partition &each, const engine &e) {
    std::vector<logical_tensor> inputs;
    std::vector<logical_tensor> outputs;
    for (const logical_tensor &lt : each.get_input_ports())
        inputs.push_back(tensors_.at(lt.get_id()).lt);
    for (const logical_tensor &lt : each.get_output_ports())
        outputs.push_back(compilable(tensors_.at(lt.get_id()).lt));
    compiled_partition compiled = each.compile(inputs, outputs, e);
    for (const logical_tensor &lt : outputs)
        tensors_.at(lt.get_id()).lt
                = compiled.query_logical_tensor(lt.get_id());
    return compiled;
}

compiled_partition run::execute_step(const partition &each, const engine &e) {
    compiled_partition compiled;
    try {
        compiled = compile(each, e);
    } catch (const error &failure) {
        check_refusal(failure);
        return {};
    }
    const compiled_partition_info info = compiled.get_info();
    for (const step_info &step : info.steps)
        kernels_.push_back(step.kernel);
    if (info.workspace_bytes > most_workspace) {
        fail("a workspace of " + std::to_string(info.workspace_bytes)
                + " bytes");
        return {};
    }
    std::vector<tensor> inputs;
    for (const logical_tensor &lt : each.get_input_ports()) {
        const entry &given = tensors_.at(lt.get_id());
        const bool on_host = given.lt.get_data_type() == data_type::s32;
        bool needed = false;
        for (const op &of : problem_.ops)
            for (size_t port = 0; port < of.get_inputs().size(); ++port)
                if (of.get_inputs()[port].get_id() == lt.get_id())
                    needed = needed || is_read(of, port);
        const bool null = !needed && problem_.values_seed % 2 == 0;
        inputs.emplace_back(given.lt,
                on_host ? test::shared_engine(engine::kind::cpu) : e,
                null ? nullptr : given.memory->data());
    }
    std::vector<tensor> outputs;
    for (const logical_tensor &lt : each.get_output_ports()) {
        entry &made = tensors_.at(lt.get_id());
        made.memory = std::make_shared<buffer>(e, made.lt.get_mem_size(),
                static_cast<size_t>(problem_.misalignment)
                        * static_cast<size_t>(
                                detail::size_of(made.lt.get_data_type())),
                buffer::role::output);
        outputs.emplace_back(made.lt, e, made.memory->data());
    }
    stream s(e);
    compiled.execute(s, inputs, outputs);
    s.wait();
    std::map<size_t, std::vector<std::byte>> first;
    for (const logical_tensor &lt : each.get_output_ports()) {
        entry &made = tensors_.at(lt.get_id());
        auto all = made.memory->read_all();
        made.image = made.memory->inner(all);
        const std::string damage = damage_outside(made.lt, *made.memory, all);
        if (!damage.empty()) {
            fail(damage);
            return {};
        }
        first.emplace(lt.get_id(), std::move(all));
        made.memory->poison();
    }
    // Once more, with a workspace of our own.
    buffer workspace(e, info.workspace_bytes, 0, buffer::role::output);
    compiled.execute(s, inputs, outputs, workspace.data());
    s.wait();
    const auto scratch = workspace.read_all();
    const size_t front = workspace.front();
    const bool kept = std::all_of(scratch.begin(),
                              scratch.begin() + static_cast<long>(front),
                              [](std::byte b) { return b == std::byte {0xff}; })
            && std::all_of(scratch.end() - static_cast<long>(front),
                    scratch.end(),
                    [](std::byte b) { return b == std::byte {0xff}; });
    if (!kept)
        fail("something was written outside the workspace of "
                + std::to_string(info.workspace_bytes) + " bytes");
    for (const auto &[id, bytes] : first) {
        entry &made = tensors_.at(id);
        auto again = made.memory->read_all();
        if (info.deterministic && again != bytes)
            fail("two runs gave tensor " + std::to_string(id) + " other bits");
        // What the ops behind this one read.
        made.image = made.memory->inner(again);
    }
    return compiled;
}

void run::check_inputs() {
    for (const auto &[id, each] : tensors_) {
        if (each.computed || !each.memory) continue;
        if (each.memory->inner(each.memory->read_all()) != each.image)
            fail("input " + std::to_string(id) + " was written");
    }
}

std::string run_all(const problem &what, const engine &e) {
    run all(what);
    all.prepare();
    all.execute(e);
    all.verify();
    return all.finding();
}

} // namespace gradnn::fuzz
