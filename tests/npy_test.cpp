// Reading and writing .npy files, and the conversions of single values that
// they rest on.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "base/atomic_file.hpp"
#include "base/input_error.hpp"
#include "files/npy.hpp"
#include "files/tensor_data.hpp"

namespace {

using namespace gradnn;
using namespace gradnn::detail;
namespace fs = std::filesystem;

using data_type = logical_tensor::data_type;
using dims = std::vector<int64_t>;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A folder of its own for each test, empty.
class npy : public testing::Test {
protected:
    npy() {
        const auto *test
                = testing::UnitTest::GetInstance()->current_test_info();
        folder_ = fs::path(testing::TempDir())
                / (std::string("gradnn_npy_") + test->name());
        fs::remove_all(folder_);
        fs::create_directories(folder_);
    }
    ~npy() override { fs::remove_all(folder_); }

    std::string path(const std::string &name = "a.npy") const {
        return (folder_ / name).string();
    }

    /// A file of version 1 with this header and data.
    std::string file(const std::string &header, const std::string &data,
            const std::string &start
            = std::string("\x93NUMPY\x01\x00", 8)) const {
        std::string text = start;
        const size_t size_bytes = start[6] == 1 ? 2 : 4;
        for (size_t index = 0; index < size_bytes; ++index)
            text += static_cast<char>(header.size() >> 8 * index & 0xffU);
        std::ofstream(path(), std::ios::binary) << text << header << data;
        return path();
    }

    std::string message_of(const std::string &name) const {
        try {
            read_npy(name);
        } catch (const input_error &error) {
            return error.what();
        }
        ADD_FAILURE() << "nothing was thrown";
        return "";
    }

    void expect_error(const std::string &header, const std::string &data,
            const std::string &piece) const {
        const std::string message = message_of(file(header, data));
        EXPECT_NE(message.find(piece), std::string::npos) << message;
        EXPECT_EQ(message.rfind(path(), 0), 0U) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }

    size_t files_in_folder() const {
        return static_cast<size_t>(std::distance(
                fs::directory_iterator(folder_), fs::directory_iterator()));
    }

private:
    fs::path folder_;
};

template <typename Element>
std::string bytes_of(const std::vector<Element> &values) {
    std::string bytes(values.size() * sizeof(Element), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

TEST_F(npy, round_trip_of_every_type) {
    const std::vector<double> values = {0, -1.5, 3, 0.0999755859375, 65504, 2};
    for (const auto type : {data_type::f64, data_type::f32, data_type::f16,
                 data_type::bf16, data_type::s32}) {
        std::vector<double> stored;
        for (const double value : values)
            stored.push_back(rounded_to(type, value));
        const dims shape = {2, 1, 3};
        write_npy(path(), type, shape, stored);
        dims read_shape;
        EXPECT_EQ(read_npy(path(), &read_shape), stored) << to_string(type);
        EXPECT_EQ(read_shape, shape);
    }
}

TEST_F(npy, shapes_of_every_rank) {
    for (const dims &shape :
            {dims {}, dims {4}, dims {0}, dims {2, 2}, dims {1, 0, 3}}) {
        size_t count = 1;
        for (const int64_t dim : shape)
            count *= static_cast<size_t>(dim);
        write_npy(path(), data_type::f32, shape, std::vector<double>(count, 7));
        const npy_header header = read_npy_header(path());
        EXPECT_EQ(header.dims, shape);
        EXPECT_EQ(header.data_offset % 64, 0);
        EXPECT_EQ(read_npy(path()).size(), count);
    }
}

TEST_F(npy, types_on_disk) {
    const auto type_of = [&](data_type type) {
        write_npy(path(), type, dims {1}, std::vector<double> {1});
        return read_npy_header(path()).type;
    };
    EXPECT_EQ(type_of(data_type::bf16), "<f4");
    EXPECT_EQ(type_of(data_type::f16), "<f2");
    EXPECT_EQ(type_of(data_type::f32), "<f4");
    EXPECT_EQ(type_of(data_type::f64), "<f8");
    EXPECT_EQ(type_of(data_type::s32), "<i4");
}

TEST_F(npy, numpy_wrote_these) {
    // Captured from PyTorch on a photograph, saved by NumPy.
    dims shape;
    const auto values = read_npy(
            DATA_DIR "/segmentation_step/classifier_diff_weights.npy", &shape);
    EXPECT_EQ(shape, (dims {6, 32, 1, 1}));
    EXPECT_EQ(values.size(), 192U);
}

TEST_F(npy, fortran_order) {
    file("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 3), }",
            bytes_of<int64_t>({1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(read_npy(path()), (std::vector<double> {1, 2, 3, 4, 5, 6}));
}

TEST_F(npy, version_2_and_3) {
    for (const char version : {'\2', '\3'}) {
        file("{\"shape\": (1,), 'descr':'<f8','fortran_order':False}\n",
                bytes_of<double>({2.5}),
                std::string("\x93NUMPY") + version + std::string(1, '\0'));
        EXPECT_EQ(read_npy(path()), (std::vector<double> {2.5}));
    }
}

TEST_F(npy, corrupt_headers) {
    const std::string eight(8, '\0');
    expect_error("", "", "expected '{'");
    expect_error("{'descr': '<f4', 'fortran_order': False}", "", "lacks");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': (2,}",
            eight, "expected a number");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
            eight, "a number of at least 0 before");
    expect_error("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}",
            eight, "True or False");
    expect_error("{'descr': '<f4, 'fortran_order': False, 'shape': (2,)}",
            eight, "corrupt");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
            eight, "goes on");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), "
                 "'sh\npe': 1}",
            eight, "unexpected key 'sh?pe'");
    expect_error("{'descr': '<f4', 'descr': '<f4'}", eight, "unexpected key");
    expect_error("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}",
            eight, "'>f4'; <f2");
    expect_error("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
            eight, "'<c8'; <f2");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': "
                 "(99999999999999999999,)}",
            eight, "63 bits");
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': "
                 "(4294967296, 4294967296, 4294967296)}",
            eight, "63 bits");
}

TEST_F(npy, missing_or_superfluous_data) {
    const std::string header
            = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}";
    expect_error(header, std::string(11, '\0'),
            "needs 12 bytes of data, there "
            "are 11");
    expect_error(header, std::string(13, '\0'), "there are 13");
    // Refused before anything of this size is allocated.
    expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': "
                 "(1000000000000,)}",
            "", "needs 4000000000000 bytes");
}

TEST_F(npy, other_files) {
    EXPECT_NE(message_of(path("none.npy")).find("No such file"),
            std::string::npos);
    EXPECT_NE(message_of("/").find("cannot be read"), std::string::npos);
    std::ofstream(path("text.npy")) << "not an array at all";
    EXPECT_NE(
            message_of(path("text.npy")).find("not a .npy"), std::string::npos);
    std::ofstream(path("short.npy")) << "\x93NUMPY";
    EXPECT_NE(message_of(path("short.npy")).find("not a .npy"),
            std::string::npos);
    file("", "", std::string("\x93NUMPY\x04\x00", 8));
    EXPECT_NE(message_of(path()).find("version 4"), std::string::npos);
    std::ofstream(path("cut.npy"), std::ios::binary)
            << std::string("\x93NUMPY\x01\x00\x76\x00{'de", 14);
    EXPECT_NE(
            message_of(path("cut.npy")).find("ends inside"), std::string::npos);
    std::ofstream(path("huge.npy"), std::ios::binary)
            << std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13);
    EXPECT_NE(message_of(path("huge.npy")).find("header of 4294967295 bytes"),
            std::string::npos);
}

TEST_F(npy, truncation_at_any_byte_is_an_error) {
    const std::string whole = npy_contents(
            data_type::f32, dims {2, 2}, std::vector<double> {1, 2, 3, 4});
    for (size_t size = 0; size < whole.size(); ++size) {
        std::ofstream(path(), std::ios::binary) << whole.substr(0, size);
        EXPECT_THROW(read_npy(path()), input_error) << size;
    }
}

TEST_F(npy, integers_beyond_float64_are_refused) {
    expect_error("{'descr': '<i8', 'fortran_order': False, 'shape': (1,)}",
            bytes_of<int64_t>({(int64_t {1} << 53) + 1}), "2^53");
}

TEST_F(npy, files_appear_whole_or_not_at_all) {
    {
        atomic_file file(path());
        file.write(std::string("half"));
        EXPECT_FALSE(fs::exists(path()));
    }
    EXPECT_EQ(files_in_folder(), 0U);

    std::ofstream(path()) << "before";
    {
        atomic_file file(path());
        file.write(std::string("after"));
        atomic_file moved(std::move(file));
        EXPECT_EQ(fs::file_size(path()), 6U);
        moved.commit();
    }
    EXPECT_EQ(files_in_folder(), 1U);
    EXPECT_EQ(fs::file_size(path()), 5U);
    const fs::perms mode = fs::status(path()).permissions();
    EXPECT_NE(mode & fs::perms::owner_write, fs::perms::none);
}

TEST_F(npy, links_stay_links) {
    std::ofstream(path("real")) << "x";
    fs::create_symlink(path("real"), path("link"));
    write_npy(path("link"), data_type::f32, dims {1}, std::vector<double> {1});
    EXPECT_TRUE(fs::is_symlink(path("link")));
    EXPECT_EQ(read_npy(path("real")), (std::vector<double> {1}));
}

TEST_F(npy, places_that_cannot_be_written) {
    EXPECT_THROW(atomic_file(path("no/such/folder.npy")), input_error);
    EXPECT_THROW(atomic_file("/"), input_error);
    EXPECT_THROW(atomic_file("/dev/null"), input_error);
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

// Conversions.

TEST(tensor_data, every_16_bit_value_survives) {
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
        const auto small = static_cast<uint16_t>(bits);
        const double half = from_f16(small);
        if (std::isnan(half))
            EXPECT_TRUE(std::isnan(from_f16(to_f16(half))));
        else
            EXPECT_EQ(to_f16(half), small);
        const double brain = from_bf16(small);
        if (std::isnan(brain)) {
            EXPECT_TRUE(std::isnan(from_bf16(to_bf16(brain))));
        } else {
            EXPECT_EQ(to_bf16(brain), small);
            // bf16 is the upper half of f32.
            EXPECT_EQ(std::bit_cast<uint32_t>(static_cast<float>(brain)),
                    bits << 16U);
        }
    }
}

TEST(tensor_data, ties_go_to_even_and_the_rest_to_nearest) {
    const auto check = [](auto from, auto to, uint16_t last) {
        for (uint16_t bits = 0; bits < last; ++bits) {
            const double low = from(bits);
            const double high = from(static_cast<uint16_t>(bits + 1));
            const double middle = (low + high) / 2; // exact in float64
            const auto even = static_cast<uint16_t>(bits + bits % 2);
            ASSERT_EQ(to(middle), even) << bits;
            ASSERT_EQ(to(std::nextafter(middle, 0)), bits);
            ASSERT_EQ(to(std::nextafter(middle, infinity)), bits + 1);
            ASSERT_EQ(to(-middle), even | 0x8000U);
        }
    };
    check(from_f16, to_f16, 0x7bff);
    check(from_bf16, to_bf16, 0x7f7f);
}

TEST(tensor_data, ends_of_the_range) {
    EXPECT_EQ(to_f16(65519.99), 0x7bff);
    EXPECT_EQ(to_f16(65520), 0x7c00); // half way to what would be next: even
    EXPECT_EQ(to_f16(1e300), 0x7c00);
    EXPECT_EQ(to_f16(-infinity), 0xfc00);
    EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80);
    EXPECT_EQ(to_f16(0x1p-25), 0); // half of the least subnormal: even
    EXPECT_EQ(to_f16(0x1.8p-25), 1);
    EXPECT_EQ(to_f16(5e-324), 0);
    EXPECT_EQ(to_f16(-0.0), 0x8000);
    EXPECT_TRUE(std::isnan(from_f16(to_f16(std::nan("")))));
}

TEST(tensor_data, ulps) {
    EXPECT_EQ(ulps_between(data_type::f16, 1, 1), 0);
    EXPECT_EQ(ulps_between(data_type::f16, 1, 1 + 0x1p-10), 1);
    EXPECT_EQ(ulps_between(data_type::bf16, -1, -1 - 0x1p-7), 1);
    EXPECT_EQ(ulps_between(data_type::f16, 0x1p-24, -0x1p-24), 2);
    EXPECT_EQ(ulps_between(data_type::f16, 0.0, -0.0), 0);
    EXPECT_EQ(ulps_between(data_type::f16, std::nan(""), std::nan("")), 0);
    EXPECT_GT(ulps_between(data_type::f16, std::nan(""), 1), 1000000);
}

TEST(tensor_data, ulps_of_sums) {
    // 1.002 is rounded to 1.
    EXPECT_EQ(ulps_of_sum(data_type::bf16, 1, 1.002, 2), 0);
    EXPECT_EQ(ulps_of_sum(data_type::bf16, 1 + 0x1p-6, 1.002, 2), 2);
    // A sum that nearly cancels is no better than its terms.
    EXPECT_EQ(ulps_of_sum(data_type::bf16, 0x1p-20, 0x1p-21, 1), 0);
    EXPECT_EQ(ulps_of_sum(data_type::bf16, 0x1p-20, 0x1p-21, 0.5), 128);
    EXPECT_GT(ulps_of_sum(data_type::bf16, 1, infinity, infinity), 1);
}

TEST(tensor_data, strides) {
    const logical_tensor lt(0, data_type::f32, logical_tensor::dims {2, 3},
            logical_tensor::dims {1, 4});
    std::vector<float> memory(10, -1);
    store(lt, std::vector<double> {1, 2, 3, 4, 5, 6}, memory.data());
    EXPECT_EQ(memory, (std::vector<float> {1, 4, -1, -1, 2, 5, -1, -1, 3, 6}));
    EXPECT_EQ(
            load(lt, memory.data()), (std::vector<double> {1, 2, 3, 4, 5, 6}));
    EXPECT_THROW(store(lt, std::vector<double> {1}, memory.data()), error);

    generate(lt, memory.data(),
            [](int64_t index) { return static_cast<double>(index) * 10; });
    EXPECT_EQ(load(lt, memory.data()),
            (std::vector<double> {0, 10, 20, 30, 40, 50}));
    EXPECT_EQ(memory[2], -1);
}

TEST(tensor_data, checksum_sees_bits_and_not_strides) {
    const logical_tensor dense(0, data_type::f32, logical_tensor::dims {2, 3},
            logical_tensor::layout_type::strided);
    const logical_tensor turned(0, data_type::f32, logical_tensor::dims {2, 3},
            logical_tensor::dims {1, 4});
    std::vector<float> a(6);
    std::vector<float> b(10, 9);
    store(dense, std::vector<double> {1, 2, 3, 4, 5, 6}, a.data());
    store(turned, std::vector<double> {1, 2, 3, 4, 5, 6}, b.data());
    const uint64_t digest = checksum(dense, a.data());
    EXPECT_EQ(digest, checksum(turned, b.data()));
    b[2] = 0; // between elements
    EXPECT_EQ(digest, checksum(turned, b.data()));
    a[5] = std::nextafter(a[5], 7.0F);
    EXPECT_NE(digest, checksum(dense, a.data()));
    std::swap(a[0], a[1]);
    EXPECT_NE(digest, checksum(dense, a.data()));
}

TEST(tensor_data, scalars_and_empties) {
    const logical_tensor scalar(0, data_type::f64, logical_tensor::dims {},
            logical_tensor::layout_type::strided);
    double value = 0;
    store(scalar, std::vector<double> {3}, &value);
    EXPECT_EQ(load(scalar, &value), (std::vector<double> {3}));
    const logical_tensor empty(0, data_type::f64,
            logical_tensor::dims {2, 0, 3},
            logical_tensor::layout_type::strided);
    EXPECT_TRUE(load(empty, nullptr).empty());
    store(empty, {}, nullptr);
}

} // namespace
