#include "op/shape_rules.hpp"

#include "base/text.hpp"
#include "op/labels.hpp"
#include "tensor/layout.hpp"

namespace gradnn::detail {

namespace {

std::string words_of(const checked_op &the_op, const dims_source &source) {
    if (const auto *port = std::get_if<port_reference>(&source))
        return port_label(the_op, *port);
    if (const auto *name = std::get_if<op::attr>(&source))
        return text("attribute ", to_string(*name));
    return std::get<const char *>(source);
}

logical_tensor with_dims(const logical_tensor &lt, const dims &shape) {
    if (lt.get_layout_type() == logical_tensor::layout_type::strided
            && dims_known(lt))
        return lt;
    return {lt.get_id(), lt.get_data_type(), shape, lt.get_layout_type(),
            lt.get_property_type()};
}

} // namespace

void role_dims::agree(const checked_op &the_op, std::span<const int64_t> given,
        dims_source source) {
    if (!known) {
        known.emplace(given.begin(), given.end());
        from = source;
        return;
    }
    bool same = known->size() == given.size();
    for (size_t i = 0; same && i < given.size(); ++i)
        same = given[i] == logical_tensor::unknown_dim
                || given[i] == (*known)[i];
    if (!same)
        fail_shape(the_op,
                text(words_of(the_op, source), " has dims ", text_of(given),
                        "; ", detail::text_of(*known), " are allowed, by ",
                        words_of(the_op, from)));
}

role_dims collect(const checked_op &the_op, port_role role) {
    role_dims result;
    for_each_port(the_op, [&](port_reference port) {
        const logical_tensor &lt = the_op.port(port);
        if (the_op.row(port).role == role && dims_known(lt))
            result.agree(the_op, dims_of(lt), port);
    });
    return result;
}

void output_dims::settle(
        port_role role, const dims &shape, dims_source source) {
    for (size_t index = 0; index < outputs_.size(); ++index) {
        logical_tensor &lt = outputs_[index];
        const port_reference port {true, index};
        if (lt.is_absent() || the_op_.row(port).role != role) continue;
        role_dims agreed {shape, source};
        if (rank_known(lt)) agreed.agree(the_op_, dims_of(lt), port);
        lt = with_dims(lt, shape);
    }
}

} // namespace gradnn::detail
