// A wrapper points at a header, which entries follow: PTX, or an ELF file whose
// section .nv.info lists the registers of kernels, .nv.shared.KERNEL has the size
// of its static shared memory, and .nv.info.KERNEL may hold its launch bounds.
// None of it is documented; cuobjdump -res-usage gives the same numbers.
#include "fat_binary.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <elf.h>

namespace gradnn::fake_cuda {

namespace {

struct wrapper_layout {
    uint32_t magic;
    uint32_t version;
    const std::byte *data;
};

struct header_layout {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t bytes; ///< of all entries
};

struct entry_layout {
    uint16_t kind;
    uint16_t version;
    uint32_t header_bytes;
    uint64_t bytes; ///< of what follows the entry's header
    uint32_t compressed_bytes;
    uint32_t unknown;
    uint16_t minor;
    uint16_t major;
    uint32_t architecture;
    uint32_t name_offset;
    uint32_t name_bytes;
    uint64_t flags;
    uint64_t zero;
    uint64_t uncompressed_bytes; ///< 0 where it is not compressed
};

constexpr uint32_t wrapper_magic = 0x466243b1;
constexpr uint32_t header_magic = 0xba55ed50;
constexpr uint16_t machine_code = 2;

template <typename Type>
Type read(const std::byte *from) {
    Type value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// An ELF file in memory.
class elf_file {
public:
    elf_file(const std::byte *data, size_t bytes) : data_(data), bytes_(bytes) {
        if (bytes < sizeof(Elf64_Ehdr)
                || std::memcmp(data, ELFMAG, SELFMAG) != 0)
            throw std::runtime_error("machine code that is no ELF file");
        const auto header = read<Elf64_Ehdr>(data);
        for (size_t index = 0; index < header.e_shnum; ++index)
            sections_.push_back(read<Elf64_Shdr>(
                    at(header.e_shoff + index * sizeof(Elf64_Shdr),
                            sizeof(Elf64_Shdr))));
        if (header.e_shstrndx >= sections_.size())
            throw std::runtime_error("an ELF file without section names");
        names_ = sections_[header.e_shstrndx].sh_offset;
    }

    const std::vector<Elf64_Shdr> &sections() const { return sections_; }

    std::string_view name_of(const Elf64_Shdr &section) const {
        return text(names_ + section.sh_name);
    }
    const std::byte *contents(const Elf64_Shdr &section) const {
        return at(section.sh_offset, section.sh_size);
    }
    /// The names of the symbols, by index.
    std::vector<std::string_view> symbols() const {
        std::vector<std::string_view> found;
        for (const Elf64_Shdr &section : sections_) {
            if (section.sh_type != SHT_SYMTAB
                    || section.sh_link >= sections_.size())
                continue;
            const uint64_t strings = sections_[section.sh_link].sh_offset;
            const std::byte *list = contents(section);
            for (size_t from = 0; from + sizeof(Elf64_Sym) <= section.sh_size;
                    from += sizeof(Elf64_Sym))
                found.push_back(
                        text(strings + read<Elf64_Sym>(list + from).st_name));
        }
        return found;
    }

private:
    const std::byte *at(uint64_t offset, uint64_t count) const {
        if (offset > bytes_ || count > bytes_ - offset)
            throw std::runtime_error("an ELF file that ends early");
        return data_ + offset;
    }
    std::string_view text(uint64_t offset) const {
        const auto *start = reinterpret_cast<const char *>(at(offset, 1));
        return {start, strnlen(start, bytes_ - offset)};
    }

    const std::byte *data_;
    size_t bytes_;
    std::vector<Elf64_Shdr> sections_;
    uint64_t names_ = 0;
};

/// Calls visit(attribute, value) for each record of a section .nv.info; value is
/// null where the record is too short to have one of `least` bytes.
template <typename Visit>
void visit_info(const std::byte *from, size_t bytes, const Visit &visit) {
    constexpr uint8_t sized_value = 4; // the others are in the record itself
    for (size_t place = 0; place + 4 <= bytes;) {
        const auto format = read<uint8_t>(from + place);
        const auto attribute = read<uint8_t>(from + place + 1);
        const size_t size
                = format == sized_value ? read<uint16_t>(from + place + 2) : 0;
        place += 4;
        if (size > bytes - place)
            throw std::runtime_error("a section .nv.info that ends early");
        visit(attribute, from + place, size);
        place += size;
    }
}

void read_elf(const elf_file &elf, kernel_codes &codes) {
    constexpr uint8_t register_count = 0x2f;
    constexpr uint8_t stack_bytes = 0x11;
    constexpr uint8_t max_threads = 0x05;
    // Which the system keeps of each block, and ptxas counts in.
    constexpr uint64_t reserved = 1024;
    const auto symbols = elf.symbols();
    const auto suffix = [](std::string_view name, std::string_view prefix) {
        return name.starts_with(prefix) ? name.substr(prefix.size())
                                        : std::string_view();
    };
    // Registers first: they say which symbols are kernels.
    for (const Elf64_Shdr &section : elf.sections()) {
        if (elf.name_of(section) != ".nv.info") continue;
        visit_info(elf.contents(section), section.sh_size,
                [&](uint8_t attribute, const std::byte *value, size_t size) {
                    if ((attribute != register_count
                                && attribute != stack_bytes)
                            || size < 8)
                        return;
                    const auto symbol = read<uint32_t>(value);
                    if (symbol >= symbols.size())
                        throw std::runtime_error("a kernel without a name");
                    kernel_code &code = codes[std::string(symbols[symbol])];
                    const auto number = read<uint32_t>(value + 4);
                    if (attribute == stack_bytes)
                        code.local_bytes = number;
                    else
                        code.registers = static_cast<int>(number);
                });
    }
    for (const Elf64_Shdr &section : elf.sections()) {
        const std::string_view name = elf.name_of(section);
        if (const auto shared = codes.find(suffix(name, ".nv.shared."));
                shared != codes.end())
            shared->second.shared_bytes
                    = section.sh_size - std::min(section.sh_size, reserved);
        const auto info = codes.find(suffix(name, ".nv.info."));
        if (info == codes.end()) continue;
        visit_info(elf.contents(section), section.sh_size,
                [&](uint8_t attribute, const std::byte *value, size_t size) {
                    if (attribute != max_threads || size < 12) return;
                    const uint32_t threads = read<uint32_t>(value)
                            * read<uint32_t>(value + 4)
                            * read<uint32_t>(value + 8);
                    info->second.most_threads
                            = static_cast<int>(std::min(threads, 1024U));
                });
    }
}

/// Of nvcc -Xfatbin=-compress-all, since 12.8.
std::vector<std::byte> decompressed(
        const entry_layout &entry, const std::byte *contents) {
    constexpr uint64_t by_zstd = 0x8000;
    using decompress_f = size_t(void *, size_t, const void *, size_t);
    void *const library = dlopen("libzstd.so.1", RTLD_NOW);
    if ((entry.flags & by_zstd) == 0 || library == nullptr)
        throw std::runtime_error(
                "compressed machine code, which takes libzstd.so.1 and an nvcc "
                "that compresses by it");
    auto *const decompress = reinterpret_cast<decompress_f *>(
            dlsym(library, "ZSTD_decompress"));
    std::vector<std::byte> code(entry.uncompressed_bytes);
    if (decompress(code.data(), code.size(), contents, entry.compressed_bytes)
            != code.size())
        throw std::runtime_error("compressed machine code that is damaged");
    return code;
}

} // namespace

kernel_codes read_machine_code(const void *code, size_t bytes) {
    kernel_codes codes;
    read_elf(elf_file(static_cast<const std::byte *>(code), bytes), codes);
    return codes;
}

kernel_codes read_fat_binary(
        const void *wrapper, unsigned architecture, bool or_nearest) {
    const auto outer
            = read<wrapper_layout>(static_cast<const std::byte *>(wrapper));
    if (outer.magic != wrapper_magic)
        throw std::runtime_error("a fat binary of an unknown kind");
    const auto header = read<header_layout>(outer.data);
    if (header.magic != header_magic)
        throw std::runtime_error("a fat binary with an unknown header");
    // The machine code of each architecture.
    std::multimap<unsigned, std::pair<entry_layout, const std::byte *>> parts;
    const std::byte *const end
            = outer.data + header.header_bytes + header.bytes;
    for (const std::byte *place = outer.data + header.header_bytes;
            place < end;) {
        const auto entry = read<entry_layout>(place);
        const std::byte *const contents = place + entry.header_bytes;
        if (entry.kind == machine_code)
            parts.insert({entry.architecture, {entry, contents}});
        place = contents + entry.bytes;
    }
    const unsigned device = architecture;
    if (!parts.empty()) {
        const auto above = parts.upper_bound(architecture);
        const unsigned found
                = (above == parts.begin() ? above : std::prev(above))->first;
        if (or_nearest
                || (found <= architecture && found / 10 == architecture / 10))
            architecture = found;
    }
    kernel_codes codes;
    const auto [first, last] = parts.equal_range(architecture);
    for (auto part = first; part != last; ++part) {
        const auto &[entry, contents] = part->second;
        if (entry.uncompressed_bytes != 0) {
            const auto code = decompressed(entry, contents);
            read_elf(elf_file(code.data(), code.size()), codes);
        } else {
            read_elf(elf_file(contents, entry.bytes), codes);
        }
    }
    for (auto &[name, code] : codes) {
        code.ptx = std::min(architecture, device);
        code.binary = code.ptx / 10 == device / 10 ? code.ptx : device;
    }
    return codes;
}

} // namespace gradnn::fake_cuda
