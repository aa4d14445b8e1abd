// The patterns of ops that make one partition, and the walk that finds them.
//
// A pattern is a chain: each op's gradient (its output 0) is the diff_dst of the
// next one, or an operand of Add. An upsampling in front of its own gradient's
// convolution makes that one's src. oneDNN Graph's rules say when ops may be
// grouped: that tensor has no other reader, so that nobody misses it (End is one,
// and stands for a reader outside the graph), and no other partition stands both
// behind and before the group.
#include "graph/grouping.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <unordered_map>

#include "graph/edges.hpp"

namespace gradnn::detail {

namespace {

using kind = op::kind;
using kinds = std::span<const kind>;

constexpr kind convolution[]
        = {kind::ConvBackward, kind::ConvolutionBackwardData,
                kind::ConvTransposeBackward, kind::ConvTransposeBackwardData};
constexpr kind whole_convolution[]
        = {kind::ConvBackward, kind::ConvTransposeBackward};
constexpr kind conv_backward[] = {kind::ConvBackward};
constexpr kind weights_alone[]
        = {kind::ConvBackward, kind::ConvolutionBackwardWeights};
constexpr kind upsampling[] = {kind::Interpolate};
constexpr kind interpolation[] = {kind::InterpolateBackward};
constexpr kind relu[] = {kind::ReLUBackward};
constexpr kind add[] = {kind::Add};

/// The kinds that each op of the chain may have. Longer patterns come first.
constexpr std::array<kinds, 3> patterns[] = {
        {upsampling, conv_backward, interpolation},
        {upsampling, weights_alone},
        {convolution, add, relu},
        {interpolation, add, relu},
        {convolution, interpolation},
        {convolution, relu},
        {convolution, add},
        {relu, whole_convolution},
        {add, interpolation},
        {relu, interpolation},
        {interpolation, add},
        {interpolation, relu},
};

class grouper {
public:
    explicit grouper(const std::vector<checked_op> &ops)
        : ops_(ops), made_by_(ops), group_of_(ops.size()), groups_(ops.size()) {
        for (size_t index = 0; index < ops.size(); ++index) {
            group_of_[index] = index;
            groups_[index] = {index};
            for (size_t port = 0; port < ops[index].inputs.size(); ++port) {
                const logical_tensor &lt = ops[index].inputs[port];
                if (!lt.is_absent())
                    readers_[lt.get_id()].push_back({index, port});
            }
        }
    }

    std::vector<std::vector<size_t>> group() {
        for (size_t index = 0; index < ops_.size(); ++index)
            for (const auto &pattern : patterns) {
                const std::vector<size_t> chain = follow(index, pattern);
                if (chain.empty() || !is_of_use(chain) || meets_itself(chain))
                    continue;
                join(chain);
                break;
            }
        return ordered();
    }

private:
    static constexpr size_t none = producers::none;

    struct reader {
        size_t op;
        size_t port;
    };

    bool is_single(size_t index) const {
        return groups_[group_of_[index]].size() == 1;
    }

    /// The op that alone reads an op's gradient, and as a gradient; or what alone
    /// convolves a tensor whose elements the op repeats.
    size_t next_of(size_t index) const {
        const auto &outputs = ops_[index].outputs;
        if (outputs.empty() || outputs[0].is_absent()) return none;
        const auto found = readers_.find(outputs[0].get_id());
        if (found == readers_.end() || found->second.size() != 1) return none;
        const auto [next, port] = found->second.front();
        if (!ops_[next].what->schema) return none;
        const std::string_view name = ops_[next].row({false, port}).name;
        if (is_upsampling(index)) return name == "src" ? next : none;
        const bool is_gradient = ops_[next].identity().get_kind() == kind::Add
                || name == "diff_dst";
        return is_gradient ? next : none;
    }

    bool is_upsampling(size_t index) const {
        return ops_[index].identity().get_kind() == kind::Interpolate
                && ops_[index].attributes().mode == interpolation_mode::nearest;
    }

    /// An upsampling saves nothing where the gradient of its tensor is wanted.
    bool is_of_use(const std::vector<size_t> &chain) const {
        return chain.size() != 2 || !is_upsampling(chain[0])
                || ops_[chain[1]].identity().get_kind() != kind::ConvBackward
                || ops_[chain[1]].outputs[0].is_absent();
    }

    /// The chain of a pattern that begins at an op; empty where there is none.
    std::vector<size_t> follow(
            size_t index, const std::array<kinds, 3> &pattern) const {
        std::vector<size_t> chain;
        for (const kinds &allowed : pattern) {
            if (allowed.empty()) break;
            if (index == none || !is_single(index)
                    || std::ranges::find(
                               allowed, ops_[index].identity().get_kind())
                            == allowed.end())
                return {};
            chain.push_back(index);
            index = next_of(index);
        }
        return chain;
    }

    /// Whether a way leads from the chain's ops through other groups back to it.
    bool meets_itself(const std::vector<size_t> &chain) const {
        std::vector<bool> seen(groups_.size(), false);
        std::vector<size_t> open = chain;
        for (const size_t index : chain)
            seen[group_of_[index]] = true;
        while (!open.empty()) {
            const size_t from = open.back();
            open.pop_back();
            const bool inside = std::ranges::find(chain, from) != chain.end();
            for (const logical_tensor &lt : ops_[from].outputs) {
                const auto found = readers_.find(lt.get_id());
                if (lt.is_absent() || found == readers_.end()) continue;
                for (const reader &each : found->second) {
                    const size_t group = group_of_[each.op];
                    if (!inside
                            && std::ranges::find(chain, each.op) != chain.end())
                        return true;
                    if (seen[group]) continue;
                    seen[group] = true;
                    open.insert(open.end(), groups_[group].begin(),
                            groups_[group].end());
                }
            }
        }
        return false;
    }

    void join(const std::vector<size_t> &chain) {
        for (const size_t index : chain) {
            groups_[index].clear();
            group_of_[index] = chain.front();
        }
        groups_[chain.front()] = chain;
    }

    std::vector<std::vector<size_t>> ordered() const {
        const auto ready = [&](size_t group, const std::vector<bool> &placed) {
            return std::ranges::all_of(groups_[group], [&](size_t index) {
                return std::ranges::all_of(
                        ops_[index].inputs, [&](const logical_tensor &lt) {
                            const size_t maker = made_by_.of(lt);
                            return maker == none || group_of_[maker] == group
                                    || placed[group_of_[maker]];
                        });
            });
        };
        std::vector<std::vector<size_t>> result;
        for (const size_t group : in_order(groups_.size(), ready))
            if (!groups_[group].empty()) result.push_back(groups_[group]);
        return result;
    }

    const std::vector<checked_op> &ops_;
    const producers made_by_;
    std::unordered_map<size_t, std::vector<reader>> readers_; ///< by tensor id
    /// Each named after its first op; the other ops' are empty.
    std::vector<size_t> group_of_;
    std::vector<std::vector<size_t>> groups_;
};

} // namespace

std::vector<std::vector<size_t>> grouped(const std::vector<checked_op> &ops) {
    return grouper(ops).group();
}

} // namespace gradnn::detail
