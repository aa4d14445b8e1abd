// What a call of XLA runs, from the text that Python gives with the call.
//
// Compiled programs of JAX are serialised and run elsewhere, so a call carries
// no handle but a text that says all: the op, which buffer each of its ports
// is, the attributes. Text and buffers together determine the compiled op,
// which gradnn_compile() looks up.
//
//   ConvBackward in=a0:0.3.1.2;r0:0.3.1.2;a1 out=r0:0.3.1.2 groups:i=1
//       strides:I=2,2 data_format:s=NXC fpmath=0
//
// A port is an argument (a0) or a result (r0) of the call, or absent (-). As an
// input, a result gives its shape alone. The numbers behind the colon list the
// buffer's axes in the order of the port's dims; without them both orders are
// the same. Types of attributes: s string, b bool, i s64, f f32, I list of s64, D
// list of f64; f and D written as the integers that have the same bits.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gradnn/c_api.h>

namespace gradnn::jax {

/// An argument or a result of a call: dense, the last axis contiguous.
struct buffer {
    gradnn_data_type type = gradnn_undef;
    std::span<const int64_t> dims;
    void *data = nullptr; ///< null where only the shape is known
};

struct call {
    std::span<const buffer> arguments;
    std::span<const buffer> results;
};

/// Owns a reference to a compiled op.
class compiled_op {
public:
    explicit compiled_op(gradnn_compiled *handle) : handle_(handle) {}
    ~compiled_op() { gradnn_compiled_release(handle_); }
    compiled_op(const compiled_op &) = delete;
    compiled_op &operator=(const compiled_op &) = delete;

    const gradnn_compiled *get() const { return handle_; }
    size_t workspace_size() const {
        return gradnn_compiled_workspace_size(handle_);
    }
    /// What runs; throws failure.
    std::vector<gradnn_step> steps() const;

private:
    gradnn_compiled *handle_;
};

/// A failure of gradnn_*, or a text that is none.
struct failure {
    gradnn_status status;
    std::string message;
};

/// Immutable, except for the ops that it keeps; used by many threads at once. Its
/// functions throw failure.
class program {
public:
    explicit program(std::string_view text);
    program(const program &) = delete;
    program &operator=(const program &) = delete;

    /// How many results of the call its ports are; a further one is workspace.
    size_t result_count() const { return result_count_; }

    compiled_op compile(
            const gradnn_engine *engine, int threads, const call &given);
    void execute(const compiled_op &compiled, void *stream, const call &given,
            void *workspace) const;

private:
    struct port {
        enum class kind { absent, argument, result } from = kind::absent;
        size_t index = 0;
        std::vector<size_t> order; ///< empty: as the buffer
    };
    struct attribute {
        std::string name;
        gradnn_attr_type type = gradnn_attr_s64;
        std::string text;
        std::vector<int64_t> numbers; ///< of f64: their bits
        int32_t word = 0; ///< a bool, or the bits of an f32
    };

    void read_attribute(std::string_view field);
    static std::vector<port> read_ports(std::string_view list);
    static const buffer *find(const port &which, const call &given);
    static gradnn_tensor describe(const port &which, const call &given);
    gradnn_op *op_for(int threads);

    std::string op_kind_;
    std::vector<port> inputs_;
    std::vector<port> outputs_;
    std::vector<attribute> attributes_;
    int32_t fpmath_ = gradnn_fpmath_strict;
    size_t result_count_ = 0;

    std::mutex mutex_;
    /// By their number of threads; kept as long as the process runs.
    std::map<int, gradnn_op *> ops_;
};

/// The program of a text, made when the text is first seen and then kept.
program &program_of(std::string_view text);

/// The engine of a device, kept.
const gradnn_engine *engine_of(gradnn_engine_kind kind, size_t index);

} // namespace gradnn::jax
