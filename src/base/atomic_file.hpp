// Files that appear whole or not at all.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace gradnn::detail {

/// Writes to a temporary file beside the target; commit() renames it to the
/// target, destruction without commit removes it. A target that is a symbolic
/// link keeps being one.
///
/// Everything throws input_error naming the target.
class atomic_file {
public:
    /// Creates the temporary file. The target's folder must exist, and the
    /// target must be a regular file or nothing. Its permissions are these
    /// less the process's umask.
    explicit atomic_file(
            const std::string &target, unsigned permissions = 0666);
    atomic_file(atomic_file &&other) noexcept;
    atomic_file(const atomic_file &) = delete;
    atomic_file &operator=(const atomic_file &) = delete;
    ~atomic_file();

    void write(const void *data, size_t bytes);
    void write(const std::string &text) { write(text.data(), text.size()); }

    /// Flushes to the disk, so that a full one is noticed before any target
    /// is replaced. commit() does it where it was not called.
    void finish();
    void commit();

    const std::string &target() const { return shown_; }

private:
    [[noreturn]] void fail(const std::string &what) const;

    std::string shown_; ///< the target as the user named it
    std::string target_; ///< with links followed
    std::string temporary_;
    std::FILE *file_ = nullptr;
    bool pending_ = false;
};

} // namespace gradnn::detail
