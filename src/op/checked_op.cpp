#include "op/checked_op.hpp"

namespace gradnn::detail {

namespace {

op with_attributes_of(op to, const op &from) {
    for (const auto &[name, value] : from.get_attrs())
        std::visit(
                [&, key = name](const auto &v) { to.set_attr(key, v); }, value);
    return to;
}

} // namespace

op op_of(const checked_op &the_op) {
    const op &identity = the_op.identity();
    return with_attributes_of(
            op(identity.get_id(), identity.get_kind(), the_op.inputs,
                    the_op.outputs, identity.get_name()),
            identity);
}

checked_op unchecked(const op &the_op) {
    return {std::make_shared<op_description>(
                    with_attributes_of(op(the_op.get_id(), the_op.get_kind(),
                                               the_op.get_name()),
                            the_op),
                    find_schema(the_op.get_kind())),
            the_op.get_inputs(), the_op.get_outputs()};
}

} // namespace gradnn::detail
