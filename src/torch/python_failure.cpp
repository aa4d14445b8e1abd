#include "torch/python_failure.hpp"

#include <exception>
#include <stdexcept>

// PyTorch's exception of a given Python class, as torch/csrc/Exceptions.h
// declares it. A handler there finds it by this name. Where a version of
// PyTorch has no such handler, the next one makes it a RuntimeError, as it does
// of every std::exception.
namespace torch {

struct PyTorchError : std::exception {
    explicit PyTorchError(std::string text) : msg(std::move(text)) {}
    virtual void *python_type() = 0;
    const char *what() const noexcept override { return msg.c_str(); }
    std::string msg;
};

} // namespace torch

namespace gradnn::torch_kernels {

namespace {

struct python_failure final : torch::PyTorchError {
    python_failure(void *type, const std::string &message)
        : PyTorchError(message), type_(type) {}
    void *python_type() override { return type_; }

private:
    void *type_;
};

} // namespace

void throw_failure(const std::string &message) {
    throw std::runtime_error(message);
}

void throw_python_failure(void *type, const std::string &message) {
    throw python_failure(type, message);
}

} // namespace gradnn::torch_kernels
