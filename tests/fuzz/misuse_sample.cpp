#include "misuse_sample.hpp"

#include <algorithm>
#include <set>

#include "generate.hpp"

namespace gradnn::fuzz {

problem problem_to_misuse(random_source &numbers, engine::kind kind) {
    generator_options options;
    options.device = kind;
    options.scale = 0.01;
    for (;;) {
        const problem made = generate(numbers, options);
        if (made.ops.size() != 1 || made.may_refuse) continue;
        bool plain = true;
        for (const auto *ports :
                {&made.ops[0].get_inputs(), &made.ops[0].get_outputs()})
            for (const logical_tensor &lt : *ports)
                plain = plain
                        && (lt.is_absent()
                                || (count_of(lt.get_dims()) > 0
                                        && lt.get_data_type()
                                                != data_type::s32));
        std::set<size_t> ids;
        for (const logical_tensor &lt : made.ops[0].get_inputs())
            plain = plain && ids.insert(lt.get_id()).second;
        if (plain) return made;
    }
}

sample::sample(random_source &numbers, const engine &e)
    : device(e),
      the_op(problem_to_misuse(numbers, e.get_kind()).ops[0]),
      the_partition(test::partition_of(the_op, e.get_kind())) {
    compiled = the_partition.compile(input_tensors(), output_tensors(), e);
    for (const logical_tensor &lt : input_tensors()) {
        const bool on_host = lt.get_data_type() == data_type::s32;
        memory.push_back(std::make_unique<buffer>(
                on_host ? test::shared_engine(engine::kind::cpu) : e,
                lt.get_mem_size(), 0, buffer::role::input));
        memory.back()->write(
                std::vector<std::byte>(lt.get_mem_size(), std::byte {0}));
        inputs.emplace_back(lt,
                on_host ? test::shared_engine(engine::kind::cpu) : e,
                memory.back()->data());
    }
    first_output = memory.size();
    for (const logical_tensor &lt : output_tensors()) {
        const logical_tensor known = compiled.query_logical_tensor(lt.get_id());
        memory.push_back(std::make_unique<buffer>(
                e, known.get_mem_size(), 0, buffer::role::output));
        outputs.emplace_back(known, e, memory.back()->data());
    }
}

void sample::execute() {
    stream s(device);
    compiled.execute(s, inputs, outputs);
    s.wait();
}

bool sample::outputs_untouched() const {
    for (size_t index = first_output; index < memory.size(); ++index) {
        const auto all = memory[index]->read_all();
        if (std::any_of(all.begin(), all.end(),
                    [](std::byte b) { return b != std::byte {0xff}; }))
            return false;
    }
    return true;
}

} // namespace gradnn::fuzz
