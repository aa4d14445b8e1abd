// The plan of interpolation.gpu_layers: which tiles, and which kernel. The
// formula and the mapping of threads: interpolation_layers.cuh.
#include <memory>
#include <tuple>

#include "gpu/interpolation_identity.hpp"
#include "gpu/interpolation_layers.cuh"
#include "gpu/interpolation_walk_plan.hpp"
#include "gpu/kernels.hpp"
#include "gpu/launch.hpp"
#include "text.hpp"

namespace gradnn::gpu {

namespace {

using detail::text;

constexpr int64_t most_threads = most_layers_threads;
/// Elements of a line that fit into a layer_output.
constexpr int64_t most_elements = 1 << 15;
/// Elements below which no smaller tile is looked at.
constexpr int64_t smallest_tile = 512;
constexpr int64_t most_shared_bytes = 100 * 1024;

/// A kernel: elements in a word of memory and of a thread, and whether words
/// may lie anywhere.
struct layers_kind {
    int per;
    int elements;
    bool split;
    int slot_bytes; ///< of a thread
};

/// What a tile costs, in instructions of a warp, as counted in the machine
/// code; a multiprocessor issues `issue_rate` a cycle, and a layer takes
/// `layer_cycles` at least, until its elements arrive.
constexpr double issue_rate = 2.6;
constexpr double warp_rate = 0.1;
constexpr double layer_cycles = 300.0;

/// The tiles of a problem for a kernel.
struct layers_tiles {
    layers_shape shape;
    int threads = 0;
    int64_t shared_bytes = 0;
    unsigned blocks = 0;
    double cost = 0.0;
    std::vector<line_reach> column_spans, row_spans;
};

/// Ranges of diff_dst that feed `each` neighbours of an axis at a time.
std::vector<line_reach> spans_of(const detail::axis_map &map, int64_t each) {
    std::vector<line_reach> spans;
    for (int64_t from = 0; from < map.src; from += each) {
        int64_t first = map.dst;
        int64_t end = 0;
        for (int64_t i = from; i < std::min(from + each, map.src); ++i) {
            const auto at = static_cast<size_t>(i);
            if (map.count[at] == 0) continue;
            first = std::min(first, map.first[at]);
            end = std::max(end, map.first[at] + map.count[at]);
        }
        if (end == 0) first = 0;
        spans.push_back(
                {static_cast<int32_t>(first), static_cast<int32_t>(end)});
    }
    return spans;
}

int64_t longest(const std::vector<line_reach> &spans) {
    int64_t most = 0;
    for (const line_reach &span : spans)
        most = std::max<int64_t>(most, span.end - span.first);
    return most;
}

/// The problem as layers.
struct layers_problem {
    layers_shape shape; ///< without tiles
    size_t layer_axis = 0; ///< of the maps
    bool planes = false;
    int64_t groups = 1;
    int64_t dst_layers = 1;
    int64_t element_bytes = 4;
    int64_t sum_bytes = 4;
};

class tile_search {
public:
    tile_search(const layers_problem &problem, const axis_maps &maps,
            layers_kind kind, int registers, int64_t multiprocessors)
        : problem_(problem)
        , maps_(maps)
        , kind_(kind)
        , registers_(registers)
        , multiprocessors_(multiprocessors) {
        each_cut(maps[2].src, [&](int64_t tile_columns) {
            try_columns(tile_columns);
            return true;
        });
    }

    const layers_tiles &best() const { return best_; }

private:
    using axis_map = detail::axis_map;

    int64_t round_to(int64_t value, int64_t multiple) const {
        return ceil_div(value, multiple) * multiple;
    }

    /// Calls body with each size of parts that an axis can be cut into, longest
    /// first, while it returns true.
    template <typename Body>
    static void each_cut(int64_t size, const Body &body) {
        for (int64_t each = size; body(each) && each > 1;) {
            const int64_t parts = ceil_div(size, each);
            each = ceil_div(size, parts + 1);
            // No length makes just one part more.
            if (ceil_div(size, each) == parts) --each;
        }
    }

    void try_columns(int64_t tile_columns) {
        column_spans_ = spans_of(maps_[2], tile_columns);
        const int64_t channels = problem_.shape.channels;
        if (kind_.split && problem_.shape.dst_elements < kind_.per) return;
        int64_t words = 1;
        for (const line_reach &span : column_spans_)
            words = std::max(words,
                    ceil_div(span.end * channels
                                    - first_element(static_cast<int>(
                                                            span.first
                                                            * channels),
                                            problem_.shape.dst_elements,
                                            kind_.per, kind_.split),
                            kind_.per));
        if (words * kind_.per > most_threads * kind_.elements) return;
        each_cut(problem_.shape.rows, [&](int64_t tile_rows) {
            return !try_rows(tile_columns, tile_rows, words)
                    || tile_rows * words * kind_.per >= smallest_tile;
        });
    }

    bool try_rows(int64_t tile_columns, int64_t tile_rows, int64_t words) {
        const bool planes = problem_.planes;
        std::vector<line_reach> row_spans;
        int64_t dst_rows = tile_rows;
        if (planes) {
            row_spans = spans_of(maps_[1], tile_rows);
            dst_rows = std::max<int64_t>(longest(row_spans), 1);
        }
        const int64_t each = kind_.elements / kind_.per;
        const int64_t threads
                = round_to(ceil_div(dst_rows * words, each), 32);
        if (threads > most_threads) return false;
        // Rows of a tile are told apart by 32-bit offsets.
        if ((dst_rows - 1) * problem_.shape.dst_row_pitch >= int64_t {1} << 30)
            return false;
        layers_tiles made;
        layers_shape &shape = made.shape;
        shape = problem_.shape;
        shape.tile_rows = static_cast<int32_t>(tile_rows);
        shape.tile_columns = static_cast<int32_t>(tile_columns);
        shape.row_tiles = static_cast<int32_t>(ceil_div(shape.rows, tile_rows));
        shape.column_tiles
                = static_cast<int32_t>(ceil_div(shape.columns, tile_columns));
        const auto taps = [](const axis_map &map) {
            return static_cast<int32_t>(
                    ceil_div(std::max<int64_t>(map.max_count, 1), taps_at_once)
                    * taps_at_once);
        };
        shape.column_taps = taps(maps_[2]);
        shape.row_taps = planes ? taps(maps_[1]) : 0;
        const int64_t pitch = round_to(words * kind_.per, 4);
        shape.line_elements = static_cast<int32_t>(pitch * dst_rows);
        shape.second_elements = static_cast<int32_t>(
                planes ? pitch * tile_rows : pitch * dst_rows);
        if (shape.line_elements > most_elements) return false;
        const int64_t outputs = tile_columns * shape.channels;
        made.shared_bytes = threads * kind_.slot_bytes
                + problem_.sum_bytes
                        * (shape.line_elements + shape.second_elements
                                + tile_columns * shape.column_taps
                                + (planes ? tile_rows * shape.row_taps : 0))
                + static_cast<int64_t>(sizeof(layer_output))
                        * (outputs + (planes ? tile_rows : 0));
        if (made.shared_bytes > most_shared_bytes) return false;
        made.threads = static_cast<int>(threads);
        const int64_t resident = std::max<int64_t>(1,
                std::min({int64_t {65536}
                                / (round_to(registers_, 8) * threads),
                        int64_t {220 * 1024} / (made.shared_bytes + 1024),
                        2048 / threads}));
        // Instructions of a warp for a layer of diff_dst, and for one of
        // diff_src.
        const auto e = static_cast<double>(kind_.elements);
        const auto warps = static_cast<double>(threads) / 32.0;
        const double dst_cost = warps
                * (14.0 + 3.0 * e + static_cast<double>(each));
        const auto turns = [&](int64_t width, int64_t height) {
            const int64_t lanes = std::min(width, threads);
            return static_cast<double>(ceil_div(width, lanes)
                    * ceil_div(height, threads / lanes));
        };
        const auto column_taps = static_cast<double>(maps_[2].max_count);
        double src_cost = 20.0 + 2.0 * e
                + turns(outputs, tile_rows) * (12.0 + 3.0 * column_taps);
        if (planes)
            src_cost += 10.0
                    + turns(pitch / 4, tile_rows)
                            * (12.0
                                    + 7.0
                                            * static_cast<double>(
                                                    maps_[1].max_count));
        src_cost *= warps;
        const int64_t tiles = problem_.groups * shape.row_tiles
                * shape.column_tiles;
        const double ratio = static_cast<double>(problem_.dst_layers)
                / static_cast<double>(shape.layers);
        each_cut(shape.layers, [&](int64_t layers) {
            const int64_t runs = ceil_div(shape.layers, layers);
            const int64_t blocks = tiles * runs;
            if (blocks > (int64_t {1} << 30)) return false;
            const auto src = static_cast<double>(layers);
            const double dst = runs == 1
                    ? static_cast<double>(problem_.dst_layers)
                    : ratio * (src + 1.0) + 1.0;
            const double work = dst * dst_cost + src * src_cost + 400.0 * warps;
            const int64_t held
                    = std::min(resident, ceil_div(blocks, multiprocessors_));
            const double waves = std::max(1.0,
                    static_cast<double>(blocks)
                            / static_cast<double>(held * multiprocessors_));
            const double whole = std::ceil(waves);
            const double cost = (0.5 * waves + 0.5 * whole)
                    * std::max(static_cast<double>(held) * work
                                    / std::min(issue_rate,
                                            warp_rate
                                                    * static_cast<double>(held)
                                                    * warps),
                            dst * layer_cycles);
            if (best_.threads != 0 && cost >= best_.cost) return true;
            best_ = made;
            best_.cost = cost;
            best_.blocks = static_cast<unsigned>(blocks);
            best_.shape.runs = static_cast<int32_t>(runs);
            best_.shape.run_layers = static_cast<int32_t>(layers);
            best_.shape.lets_start = held == resident ? 1 : 0;
            best_.column_spans = column_spans_;
            best_.row_spans = row_spans;
            return true;
        });
        return true;
    }

    const layers_problem &problem_;
    const axis_maps &maps_;
    layers_kind kind_;
    int registers_;
    int64_t multiprocessors_;
    std::vector<line_reach> column_spans_;
    layers_tiles best_;
};

/// The kernels of a type: words of 16 bytes, and narrower ones for other
/// alignments.
template <typename Type, typename Body>
void each_kind(const Body &body) {
    if constexpr (sizeof(Type) == 2) {
        body.template operator()<8, 16, false>();
        body.template operator()<2, 8, false>();
        body.template operator()<2, 8, true>();
    } else if constexpr (sizeof(Type) == 4) {
        body.template operator()<4, 8, false>();
        body.template operator()<1, 8, false>();
    } else {
        body.template operator()<2, 4, false>();
        body.template operator()<1, 4, false>();
    }
}

template <typename Sum>
class layers_plan final : public detail::plan {
public:
    layers_plan(const detail::interpolation_problem &problem,
            const layers_problem &layers, const axis_maps &maps, int widest,
            int device)
        : type_(problem.diff_src.type)
        , planes_(layers.planes)
        , layer_rows_(upload(device, make_rows<Sum>(maps[layers.layer_axis])))
        , reach_(upload(device, make_reach(maps[layers.layer_axis])))
        , columns_(upload(device, make_columns(maps[2])))
        , column_weights_(upload_weights(device, maps[2]))
        , rows_(upload(device, make_columns(maps[1])))
        , row_weights_(upload_weights(device, maps[1])) {
        const device_guard current(device);
        const int64_t multiprocessors = properties_of(device).multiprocessors;
        with_kinds([&]<typename Type, int per, int elements, bool split>() {
            const bool anywhere = split || per == 1;
            const bool is_usual = (anywhere || per <= widest)
                    && usual_.tiles.threads == 0;
            if (!is_usual && !anywhere) return;
            with_planes<Type, per, elements, split>([&](auto *kernel) {
                cudaFuncAttributes attributes {};
                check(cudaFuncGetAttributes(&attributes, kernel),
                        "cudaFuncGetAttributes");
                arrangement made;
                made.tiles = tile_search(layers, maps,
                        {per, elements, split,
                                layer_slots<Type, per, elements / per,
                                        split>::bytes_of_thread},
                        attributes.numRegs, multiprocessors)
                                     .best();
                if (made.tiles.threads == 0) return;
                made.kind = {per, elements, split, 0};
                made.anywhere = anywhere;
                check(cudaFuncSetAttribute(kernel,
                              cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(most_shared_bytes)),
                        "cudaFuncSetAttribute");
                made.column_spans = upload(device, made.tiles.column_spans);
                made.row_spans = upload(device, made.tiles.row_spans);
                (is_usual ? usual_ : narrow_) = std::move(made);
            });
        });
    }

    /// Whether there are tiles for it.
    bool possible() const {
        return usual_.tiles.threads != 0
                && (usual_.anywhere || narrow_.tiles.threads != 0);
    }

    void execute(std::span<void *const> args, std::byte *,
            detail::stream_impl &stream) const override {
        const launch_scope scope(stream);
        const arrangement &use
                = usual_.anywhere || is_aligned(args[0], 16) ? usual_ : narrow_;
        with_kinds([&]<typename Type, int per, int elements, bool split>() {
            if (per != use.kind.per || split != use.kind.split) return;
            with_planes<Type, per, elements, split>([&](auto *kernel) {
                const layers_tables<Sum> tables {
                        layer_rows_.template as<line_row<Sum>>(),
                        reach_.template as<line_reach>(),
                        columns_.template as<line_column>(),
                        column_weights_.template as<Sum>(),
                        use.column_spans.template as<line_reach>(),
                        rows_.template as<line_column>(),
                        row_weights_.template as<Sum>(),
                        use.row_spans.template as<line_reach>()};
                launch_early("interpolation (layers)", kernel, use.tiles.blocks,
                        static_cast<unsigned>(use.tiles.threads),
                        static_cast<size_t>(use.tiles.shared_bytes),
                        scope.stream(), static_cast<const Type *>(args[0]),
                        static_cast<Type *>(args[1]), use.tiles.shape, tables);
            });
        });
    }

    std::string backend() const override { return "CUDA"; }

private:
    struct arrangement {
        layers_tiles tiles;
        layers_kind kind {};
        bool anywhere = false; ///< whether it serves any alignment
        device_buffer column_spans, row_spans;
    };

    static device_buffer upload_weights(
            int device, const detail::axis_map &map) {
        return upload(device,
                std::vector<Sum>(map.weights.begin(), map.weights.end()));
    }

    template <typename Body>
    void with_kinds(const Body &body) const {
        with_float_type(type_, [&]<typename Type>() {
            if constexpr (std::is_same_v<sum_of<Type>, Sum>)
                each_kind<Type>([&]<int per, int elements, bool split>() {
                    body.template operator()<Type, per, elements, split>();
                });
        });
    }

    template <typename Type, int per, int elements, bool split, typename Body>
    void with_planes(const Body &body) const {
        if (planes_)
            body(layers_kernel<Type, per, elements, split, true>);
        else
            body(layers_kernel<Type, per, elements, split, false>);
    }

    detail::data_type type_;
    bool planes_;
    arrangement usual_;
    arrangement narrow_; ///< for pointers that allow no wide words
    device_buffer layer_rows_, reach_;
    device_buffer columns_, column_weights_;
    device_buffer rows_, row_weights_;
};

/// Nothing, with a refusal in `why`, where it is another kernel's.
std::optional<layers_problem> describe_layers(
        const detail::interpolation_problem &problem, const axis_maps &maps,
        const walk_description &walk, bool nxc, std::string &why) {
    const detail::tensor_view &dst = problem.diff_dst;
    const detail::tensor_view &src = problem.diff_src;
    layers_problem made;
    layers_shape &shape = made.shape;
    made.planes = walk.volume;
    made.layer_axis = walk.volume ? 0 : walk.row_axis - 2;
    made.element_bytes = detail::size_of(src.type);
    made.sum_bytes = std::max<int64_t>(made.element_bytes, 4);
    const detail::axis_map &layers = maps[made.layer_axis];
    if (layers.src < 2 || layers.dst < layers.src) {
        why = "wants an outermost axis that is enlarged";
        return {};
    }
    made.dst_layers = layers.dst;
    shape.columns = static_cast<int32_t>(src.dims[4]);
    shape.channels = static_cast<int32_t>(nxc ? src.dims[1] : 1);
    shape.dst_elements = static_cast<int32_t>(dst.dims[4] * shape.channels);
    if (nxc && ((src.dims[4] > 1 && pitch_of(src, 4) != shape.channels)
                || (dst.dims[4] > 1 && pitch_of(dst, 4) != shape.channels))) {
        why = "wants columns without gaps";
        return {};
    }
    shape.layers = static_cast<int32_t>(layers.src);
    if (walk.volume) {
        made.groups = walk.groups;
        shape.rows = walk.shape.src_rows;
        shape.dst_group_pitch = walk.shape.dst_group_pitch;
        shape.src_group_pitch = walk.shape.src_group_pitch;
        shape.dst_layer_pitch = walk.shape.dst_depth_pitch;
        shape.src_layer_pitch = walk.shape.src_depth_pitch;
        shape.dst_row_pitch = walk.shape.dst_row_pitch;
        shape.src_row_pitch = walk.shape.src_row_pitch;
    } else {
        if (walk.groups > std::numeric_limits<int32_t>::max() / 2) {
            why = "wants fewer than 2^30 images";
            return {};
        }
        shape.rows = static_cast<int32_t>(walk.groups);
        shape.dst_layer_pitch = walk.shape.dst_row_pitch;
        shape.src_layer_pitch = walk.shape.src_row_pitch;
        shape.dst_row_pitch = walk.shape.dst_group_pitch;
        shape.src_row_pitch = walk.shape.src_group_pitch;
    }
    return made;
}

} // namespace

plan_or_refusal make_interpolation_layers(
        const interpolation_problem &problem, const compile_options &options) {
    const axis_maps maps = make_axis_maps(problem);
    if (maps[0].identity && maps[1].identity && maps[2].identity)
        return std::make_unique<identity_plan>(problem);
    std::string why;
    const auto &src = problem.diff_src;
    const auto &dst = problem.diff_dst;
    // Of one channel, or one column, either will do.
    auto walk = describe_walk(problem, maps, false, why);
    const bool nxc = !walk;
    if (nxc) walk = describe_walk(problem, maps, true, why);
    if (!walk) return plan_or_refusal::refuse(why);
    const auto layers = describe_layers(problem, maps, *walk, nxc, why);
    if (!layers) return plan_or_refusal::refuse(why);
    const layers_shape &shape = layers->shape;
    const int widest = widest_vector(detail::size_of(src.type),
            dst.dims[4] * shape.channels, shape.dst_group_pitch,
            shape.dst_layer_pitch, shape.dst_row_pitch);
    const auto device = static_cast<int>(options.device);
    const auto make = [&]<typename Sum>() -> plan_or_refusal {
        auto made = std::make_unique<layers_plan<Sum>>(
                problem, *layers, maps, widest, device);
        if (!made->possible())
            return plan_or_refusal::refuse(
                    "wants rows of which a few columns fit a block");
        return plan_or_refusal(std::move(made));
    };
    if (src.type == detail::data_type::f64) return make.operator()<double>();
    return make.operator()<float>();
}

} // namespace gradnn::gpu
