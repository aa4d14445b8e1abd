// NumPy's .npy files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gradnn/tensor.hpp>

namespace gradnn::detail {

/// What the header of a .npy file says.
struct npy_header {
    /// As the file writes it: "<f4".
    std::string type;
    int64_t element_bytes = 0;
    std::vector<int64_t> dims;
    bool fortran_order = false;
    /// Where the data start, in bytes.
    int64_t data_offset = 0;

    int64_t element_count() const;
};

/// Reads the header of a file of version 1 to 3 with little-endian f2, f4, f8,
/// i4 or i8 data, and checks that the data are there, all of them. Throws
/// input_error naming the file and what is wrong with it.
npy_header read_npy_header(const std::string &path);

/// The values of a file in row-major order of its dims, whatever its own
/// order, and its dims where `dims` is not null. Throws as read_npy_header,
/// and where an i8 value is not exact in float64.
std::vector<double> read_npy(
        const std::string &path, std::vector<int64_t> *dims = nullptr);

/// The contents of a .npy file with these values. The type of the file holds
/// all values of `type` exactly: bf16 becomes f4, f16 f2, f32 f4, f64 f8, s32
/// i4.
std::string npy_contents(logical_tensor::data_type type,
        std::span<const int64_t> dims, std::span<const double> values);

/// Writes npy_contents to a file that appears whole or not at all.
void write_npy(const std::string &path, logical_tensor::data_type type,
        std::span<const int64_t> dims, std::span<const double> values);

} // namespace gradnn::detail
