#include "files/npy.hpp"

#include <bit>
#include <cctype>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>

#include "base/atomic_file.hpp"
#include "base/input_error.hpp"
#include "files/tensor_data.hpp"

namespace gradnn::detail {

// The files are little-endian, and so is every machine that this runs on.
static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr int64_t longest_header = 1 << 20;
constexpr size_t most_dims = 64;

/// Reads the Python dictionary of a header: the three keys in any order.
class header_reader {
public:
    header_reader(const std::string &file, std::string_view text)
        : file_(file), rest_(text) {}

    npy_header read() {
        npy_header header;
        bool has_type = false, has_order = false, has_shape = false;
        expect('{');
        while (!accept('}')) {
            const std::string key = quoted();
            expect(':');
            if (key == "descr" && !has_type) {
                header.type = quoted();
                has_type = true;
            } else if (key == "fortran_order" && !has_order) {
                header.fortran_order = boolean();
                has_order = true;
            } else if (key == "shape" && !has_shape) {
                header.dims = tuple();
                has_shape = true;
            } else {
                fail("has an unexpected key '" + one_line(key) + "'");
            }
            if (!accept(',')) {
                expect('}');
                break;
            }
        }
        skip_space();
        if (!rest_.empty()) fail("goes on after the dictionary");
        if (!has_type || !has_order || !has_shape)
            fail("lacks one of descr, fortran_order, shape");
        return header;
    }

private:
    [[noreturn]] void fail(const std::string &what) const {
        throw input_error(file_, "corrupt .npy: its header " + what);
    }

    void skip_space() {
        while (!rest_.empty()
                && std::isspace(static_cast<unsigned char>(rest_.front())))
            rest_.remove_prefix(1);
    }

    bool accept(char letter) {
        skip_space();
        if (rest_.empty() || rest_.front() != letter) return false;
        rest_.remove_prefix(1);
        return true;
    }

    void expect(char letter) {
        if (!accept(letter))
            fail(std::string("expected '") + letter + "' before \""
                    + one_line(rest_, 20) + "\"");
    }

    std::string quoted() {
        skip_space();
        const char quote = rest_.empty() ? ' ' : rest_.front();
        const size_t end
                = rest_.empty() ? std::string_view::npos : rest_.find(quote, 1);
        if ((quote != '\'' && quote != '"') || end == std::string_view::npos)
            fail("expected a quoted string before \"" + one_line(rest_, 20)
                    + "\"");
        std::string text(rest_.substr(1, end - 1));
        rest_.remove_prefix(end + 1);
        return text;
    }

    bool boolean() {
        skip_space();
        for (const std::string_view word : {"True", "False"})
            if (rest_.starts_with(word)) {
                rest_.remove_prefix(word.size());
                return word == "True";
            }
        fail("expected True or False before \"" + one_line(rest_, 20) + "\"");
    }

    std::vector<int64_t> tuple() {
        std::vector<int64_t> dims;
        expect('(');
        while (!accept(')')) {
            dims.push_back(number());
            if (dims.size() > most_dims) fail("has a shape of too many dims");
            if (!accept(',')) {
                expect(')');
                break;
            }
        }
        return dims;
    }

    int64_t number() {
        skip_space();
        int64_t value = 0;
        size_t digits = 0;
        for (; digits < rest_.size()
                && std::isdigit(static_cast<unsigned char>(rest_[digits]));
                ++digits)
            if (__builtin_mul_overflow(value, 10, &value)
                    || __builtin_add_overflow(
                            value, rest_[digits] - '0', &value))
                fail("has a dim that does not fit in 63 bits");
        if (digits == 0)
            fail("expected a number of at least 0 before \""
                    + one_line(rest_, 20) + "\"");
        rest_.remove_prefix(digits);
        return value;
    }

    const std::string &file_;
    std::string_view rest_;
};

int64_t bytes_of(const std::string &type) {
    for (const std::string_view known : {"<f2", "<f4", "<f8", "<i4", "<i8"})
        if (type == known) return known[2] - '0';
    return 0;
}

std::string read_bytes(
        std::ifstream &in, const std::string &path, int64_t bytes) {
    std::string text(static_cast<size_t>(bytes), '\0');
    in.read(text.data(), bytes);
    if (in.gcount() != bytes)
        throw input_error(path, "corrupt .npy: it ends inside its header");
    return text;
}

std::ifstream open(const std::string &path, int64_t &file_bytes) {
    std::ifstream in(path, std::ios::binary);
    if (!in)
        throw input_error(
                path, std::string("cannot be read: ") + std::strerror(errno));
    in.seekg(0, std::ios::end);
    file_bytes = in.tellg();
    in.seekg(0);
    // A folder opens, and ends beyond any file.
    if (!in || file_bytes < 0
            || file_bytes == std::numeric_limits<int64_t>::max())
        throw input_error(path, "cannot be read: it is not a regular file");
    return in;
}

npy_header header_of(
        std::ifstream &in, const std::string &path, int64_t file_bytes) {
    if (file_bytes < static_cast<int64_t>(magic.size()) + 2
            || read_bytes(in, path, static_cast<int64_t>(magic.size()))
                    != magic)
        throw input_error(path, "is not a .npy file");
    const std::string version = read_bytes(in, path, 2);
    const int major = static_cast<unsigned char>(version[0]);
    if (major < 1 || major > 3)
        throw input_error(path,
                "is a .npy file of version " + std::to_string(major)
                        + "; 1 to 3 are allowed");
    uint32_t header_bytes = 0;
    const int64_t size_bytes = major == 1 ? 2 : 4;
    const std::string size = read_bytes(in, path, size_bytes);
    std::memcpy(&header_bytes, size.data(), size.size());
    if (header_bytes > longest_header)
        throw input_error(path,
                "corrupt .npy: a header of " + std::to_string(header_bytes)
                        + " bytes; at most " + std::to_string(longest_header)
                        + " are allowed");
    const std::string text = read_bytes(in, path, header_bytes);
    npy_header header = header_reader(path, text).read();
    header.data_offset = in.tellg();
    header.element_bytes = bytes_of(header.type);
    if (header.element_bytes == 0)
        throw input_error(path,
                "holds data of type '" + one_line(header.type)
                        + "'; <f2, <f4, <f8, <i4, <i8 are allowed");

    int64_t bytes = header.element_bytes;
    bool empty = false;
    for (const int64_t dim : header.dims)
        empty = empty || dim == 0;
    for (const int64_t dim : header.dims)
        if (!empty && __builtin_mul_overflow(bytes, dim, &bytes))
            throw input_error(
                    path, "corrupt .npy: its shape does not fit in 63 bits");
    if (empty) bytes = 0;
    const int64_t present = file_bytes - header.data_offset;
    if (bytes != present)
        throw input_error(path,
                "corrupt .npy: its header needs " + std::to_string(bytes)
                        + " bytes of data, there are "
                        + std::to_string(present));
    return header;
}

std::vector<double> decode(const npy_header &header, const std::string &data,
        const std::string &path) {
    const auto count = static_cast<size_t>(header.element_count());
    std::vector<double> values(count);
    const auto each = [&](auto element, const auto &convert) {
        for (size_t index = 0; index < count; ++index) {
            std::memcpy(&element, data.data() + index * sizeof(element),
                    sizeof(element));
            values[index] = convert(element);
        }
    };
    if (header.type == "<f2")
        each(uint16_t {}, from_f16);
    else if (header.type == "<f4")
        each(float {}, [](float value) { return static_cast<double>(value); });
    else if (header.type == "<f8")
        each(double {}, [](double value) { return value; });
    else if (header.type == "<i4")
        each(int32_t {},
                [](int32_t value) { return static_cast<double>(value); });
    else
        each(int64_t {}, [&](int64_t value) {
            constexpr int64_t exact = int64_t {1} << 53;
            if (value > exact || value < -exact)
                throw input_error(path,
                        "holds " + std::to_string(value)
                                + "; integers up to 2^53 are allowed");
            return static_cast<double>(value);
        });
    return values;
}

std::vector<double> row_major(
        const std::vector<double> &values, const std::vector<int64_t> &dims) {
    std::vector<int64_t> strides(dims.size());
    int64_t stride = 1;
    for (size_t axis = 0; axis < dims.size(); ++axis) {
        strides[axis] = stride;
        stride *= dims[axis];
    }
    std::vector<double> result(values.size());
    for (size_t index = 0; index < values.size(); ++index) {
        auto rest = static_cast<int64_t>(index);
        int64_t from = 0;
        for (size_t axis = dims.size(); axis-- > 0;) {
            from += rest % dims[axis] * strides[axis];
            rest /= dims[axis];
        }
        result[index] = values[static_cast<size_t>(from)];
    }
    return result;
}

template <typename Element, typename Convert>
void append(std::string &to, std::span<const double> values,
        const Convert &convert) {
    const size_t start = to.size();
    to.resize(start + values.size() * sizeof(Element));
    for (size_t index = 0; index < values.size(); ++index) {
        const Element element = convert(values[index]);
        std::memcpy(to.data() + start + index * sizeof(Element), &element,
                sizeof(Element));
    }
}

} // namespace

int64_t npy_header::element_count() const {
    int64_t count = 1;
    for (const int64_t dim : dims)
        if (dim == 0) return 0;
    for (const int64_t dim : dims)
        count *= dim;
    return count;
}

npy_header read_npy_header(const std::string &path) {
    int64_t file_bytes = 0;
    std::ifstream in = open(path, file_bytes);
    return header_of(in, path, file_bytes);
}

std::vector<double> read_npy(
        const std::string &path, std::vector<int64_t> *dims) {
    int64_t file_bytes = 0;
    std::ifstream in = open(path, file_bytes);
    const npy_header header = header_of(in, path, file_bytes);
    const std::string data = read_bytes(
            in, path, header.element_count() * header.element_bytes);
    if (dims) *dims = header.dims;
    std::vector<double> values = decode(header, data, path);
    return header.fortran_order ? row_major(values, header.dims) : values;
}

std::string npy_contents(logical_tensor::data_type type,
        std::span<const int64_t> dims, std::span<const double> values) {
    using data_type = logical_tensor::data_type;
    const char *written = "<f4";
    if (type == data_type::f64) written = "<f8";
    if (type == data_type::f16) written = "<f2";
    if (type == data_type::s32) written = "<i4";

    std::string shape;
    for (const int64_t dim : dims)
        shape += std::to_string(dim) + (dims.size() == 1 ? "," : ", ");
    if (dims.size() > 1) shape.resize(shape.size() - 2);
    std::string dictionary = std::string("{'descr': '") + written
            + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    // Data start at a multiple of 64 bytes; the header ends with a newline.
    const size_t before = magic.size() + 4;
    dictionary.resize(
            (before + dictionary.size() + 1 + 63) / 64 * 64 - before - 1, ' ');
    dictionary += '\n';
    const auto length = static_cast<uint16_t>(dictionary.size());

    std::string contents(magic);
    contents += {'\1', '\0', static_cast<char>(length & 0xffU),
            static_cast<char>(length >> 8U)};
    contents += dictionary;
    switch (type) {
        case data_type::f64:
            append<double>(contents, values, [](double v) { return v; });
            break;
        case data_type::f16: append<uint16_t>(contents, values, to_f16); break;
        case data_type::s32:
            append<int32_t>(contents, values,
                    [](double v) { return static_cast<int32_t>(v); });
            break;
        default:
            append<float>(contents, values,
                    [](double v) { return static_cast<float>(v); });
    }
    return contents;
}

void write_npy(const std::string &path, logical_tensor::data_type type,
        std::span<const int64_t> dims, std::span<const double> values) {
    atomic_file file(path);
    file.write(npy_contents(type, dims, values));
    file.commit();
}

} // namespace gradnn::detail
