"""Random problems from a seed, which bench/sweep times.

A problem is {"name", "index", "kind", "family", "case", "layout", "dtype"}; the
case is one of graphs.py. A problem depends on the seed, the settings and its
index alone, so any of them can be drawn again without the others.
"""

import fractions
import math
import random

import graphs

# Bytes that a problem reads and writes, in millions.
MEGABYTES = {"gpu": (64, 200), "cpu": (4, 64)}
# Multiplications and additions of one gradient of a convolution, at most: what
# takes some tens of milliseconds.
MOST_FLOPS = {"gpu": 2e12, "cpu": 1e10}
MOST_CHANNELS = 768
USUAL_CHANNELS = (
    1, 2, 3, 4, 8, 12, 16, 19, 21, 24, 32, 48, 64, 80, 96, 128, 150, 160, 192,
    256, 320, 384, 512, 768,
)  # fmt: skip
TRIES = 10000
# Of convolutions, with how often each is drawn.
CONVOLUTION_FAMILIES = {
    "dense": 0.3,
    "1x1": 0.12,
    "groups": 0.15,
    "depthwise": 0.18,
    "first layer": 0.1,
    "transposed": 0.15,
}
# Drawn where they are asked for alone (--family), so that seeds keep their problems:
# dilated windows that are longer than the image.
RARE_FAMILIES = ("long windows",)
FAMILIES = {
    "interpolation": ("whole ratios", "odd ratios"),
    "convolution": (*CONVOLUTION_FAMILIES, *RARE_FAMILIES),
}


class Draw:
    """Random numbers that are the same in every version of Python, which
    promises that of random() alone."""

    def __init__(self, seed):
        self._random = random.Random(seed).random

    def chance(self, probability):
        return self._random() < probability

    def real(self, least, most):
        return least + (most - least) * self._random()

    def log(self, least, most):
        """A real number whose logarithm is uniform."""
        return math.exp(self.real(math.log(least), math.log(most)))

    def whole(self, least, most):
        """A whole number from least to most, small ones more often."""
        return min(most, int(self.log(least, most + 1)))

    def of(self, values):
        return values[int(self._random() * len(values))]

    def weighted(self, weights):
        """A key of a dict of weights."""
        at = self._random() * sum(weights.values())
        for value, weight in weights.items():
            at -= weight
            if at < 0:
                return value
        return value


def problem(settings, index):
    """The index-th problem. Settings are {"seed", "kind", "engine", "dtype",
    "layout", "megabytes"}; a kind "both" alternates between the
    kinds."""
    kind = settings["kind"]
    if kind == "both":
        kind = graphs.KINDS[index % 2]
    engine = settings["engine"]
    draw = Draw(f"{settings['seed']} {engine} {kind} {index}")
    layout, dtype = draw.of(settings["layout"]), draw.of(settings["dtype"])
    least, most = (1e6 * each for each in settings["megabytes"])
    make = {"interpolation": _interpolation, "convolution": _convolution}[kind]
    if settings.get("family") in RARE_FAMILIES:
        make = _long_windows
    for _ in range(TRIES):
        elements = draw.log(least, most) / graphs.DTYPE_BYTES[dtype]
        drawn = make(draw, elements)
        if drawn is None:
            continue
        family, given = drawn
        name = f"{kind}_{settings['seed']}_{index}"
        case = graphs.complete(kind, {"name": name} | given)
        moved = graphs.moved_bytes(case, dtype)
        if least <= moved <= most and flops(case) <= MOST_FLOPS[engine]:
            return {
                "name": name,
                "index": index,
                "kind": kind,
                "family": family,
                "case": case,
                "layout": layout,
                "dtype": dtype,
            }
    raise ValueError(
        f"no {kind} of {least / 1e6:g} to {most / 1e6:g} MB in {TRIES} draws"
    )


def flops(case):
    """Multiplications and additions of one gradient of a convolution, else 0."""
    if case["kind"] == "interpolation":
        return 0
    src, dst, weights = graphs.shapes(case)
    small = math.prod(src if case["transposed"] else dst)
    return 2 * small * math.prod(weights[1:])


def _channels(draw, least=1, most=MOST_CHANNELS):
    usual = [each for each in USUAL_CHANNELS if least <= each <= most]
    return draw.of(usual) if draw.chance(0.6) else draw.whole(least, most)


def _sides(draw, rank, volume):
    """Spatial dims of about this volume, none less than 2."""
    stretch = [draw.log(1 / 2, 2) for _ in range(rank)]
    side = (volume / math.prod(stretch)) ** (1 / rank)
    return [max(2, round(side * each)) for each in stretch]


def _ratios(draw, rank):
    """By how much each axis is enlarged, and whether that is by whole numbers;
    ratios below 1 reduce it."""
    whole = draw.chance(0.4)
    up = draw.chance(0.7)

    def one():
        if whole:
            return draw.weighted({2: 6, 3: 2, 4: 3, 8: 1})
        return draw.log(1.05, 4.5)

    ratios = [one()] * rank if draw.chance(0.5) else [one() for _ in range(rank)]
    for axis in range(rank):
        goes_up = up != draw.chance(0.08)  # some axes go the other way
        if rank > 1 and draw.chance(0.08):
            ratios[axis] = 1
        elif not goes_up:
            ratios[axis] = 1 / ratios[axis]
    return ratios, whole


def _interpolation(draw, elements):
    rank = draw.weighted({1: 0.25, 2: 0.4, 3: 0.35})
    channels = _channels(draw)
    ratios, whole = _ratios(draw, rank)
    # The smaller side of each axis is drawn, the other follows from the ratio.
    src_of = math.prod(max(1, 1 / each) for each in ratios)
    dst_of = math.prod(max(1, each) for each in ratios)
    most = elements / channels / (src_of + dst_of)
    if most < 3**rank:
        return None
    small = _sides(draw, rank, draw.log(3**rank, most))
    large = [
        round(side * max(each, 1 / each)) for side, each in zip(small, ratios)
    ]
    src = [a if each >= 1 else b for a, b, each in zip(small, large, ratios)]
    dst = [b if each >= 1 else a for a, b, each in zip(small, large, ratios)]
    given = {
        "mode": draw.weighted({"linear": 0.7, "nearest": 0.3}),
        "coordinate_transformation_mode": draw.weighted(
            {"half_pixel": 0.5, "align_corners": 0.3, "asymmetric": 0.2}
        ),
    }
    if (
        min(ratios) > 1
        and not whole
        and given["coordinate_transformation_mode"] != "align_corners"
        and draw.chance(0.3)
    ):
        # Sixteenths are floats, so that dst follows exactly.
        given["scale_rule"] = "given"
        given["scales"] = [max(17, round(16 * each)) / 16 for each in ratios]
        dst = [int(a * scale) for a, scale in zip(src, given["scales"])]
    if src == dst:
        return None
    one = channels * (math.prod(src) + math.prod(dst))
    batch = round(elements / one)
    family = f"{'whole' if whole else 'odd'} ratios"
    return family, given | {"n": batch, "c": channels, "src": src, "dst": dst}


def _grouped_channels(draw):
    """Channels in, out and groups, with a few channels to a group."""
    per_group = draw.of((2, 3, 4, 6, 8, 12, 16, 24, 32))
    groups = draw.whole(2, MOST_CHANNELS // per_group)
    others = per_group if draw.chance(0.7) else draw.of((1, 2, 4, 8, 16, 32))
    return per_group * groups, min(others, MOST_CHANNELS // groups) * groups, groups


def _family(draw, rank):
    """A family of convolutions and its channels and attributes, stride and
    dilation apart."""
    family = draw.weighted(CONVOLUTION_FAMILIES)
    channels = _channels(draw, 8)
    others = channels if draw.chance(0.4) else _channels(draw, 8)
    given = {"in": channels, "out": others}
    kernel = draw.weighted({2: 1, 3: 6, 5: 2, 7: 1} if rank < 3 else {2: 1, 3: 4})
    if family == "1x1":
        kernel = 1
    elif family == "groups":
        given["in"], given["out"], given["groups"] = _grouped_channels(draw)
    elif family == "depthwise":
        times = 2 if draw.chance(0.1) and 2 * channels <= MOST_CHANNELS else 1
        given |= {"out": times * channels, "groups": channels}
        windows = (3, 5, 7, 9, 15, 31) if rank == 1 else (3, 3, 3, 5, 7)
        kernel = draw.of(windows if rank < 3 else (3,))
    elif family == "first layer":
        given |= {"in": draw.whole(1, 4), "out": draw.of((16, 24, 32, 48, 64, 96))}
        kernel = draw.of((3, 3, 5, 7) if rank < 3 else (3, 5))
    elif family == "transposed":
        given["transposed"] = True
        kernel = draw.of((2, 3, 4, 5) if rank < 3 else (2, 3, 4))
        if draw.chance(0.2):
            given |= {"out": channels, "groups": channels}
    given["kernel"] = kernel
    if kernel > 1 and rank > 1 and draw.chance(0.15):
        given["kernel"] = [draw.of((1, kernel, kernel)) for _ in range(rank)]
    return family, given


def _convolution(draw, elements):
    rank = draw.weighted({1: 0.2, 2: 0.55, 3: 0.25})
    family, given = _family(draw, rank)
    transposed = family == "transposed"
    given["stride"] = draw.weighted(
        {1: 2, 2: 6, 3: 1, 4: 1} if transposed else {1: 65, 2: 28, 3: 7}
    )
    given["dilation"] = 1
    if given["kernel"] != 1:
        given["dilation"] = draw.weighted({1: 80, 2: 13, 3: 7})
    if draw.chance(0.75):
        windows = graphs.per_axis(given | {"src": [0] * rank}, "kernel")
        pads = [(each - 1) * given["dilation"] // 2 for each in windows]
        given["pad"] = pads[0] if len(set(pads)) == 1 else pads
    if transposed and given["stride"] > 1 and draw.chance(0.3):
        given["output_padding"] = 1
    grown = given["stride"] ** rank if transposed else given["stride"] ** -rank
    most = elements / (2 * given["in"] + given["out"] * grown)
    if most < 3**rank:
        return None
    given["src"] = _sides(draw, rank, draw.log(3**rank, most))
    case = graphs.complete("convolution", given | {"n": 1})
    if min(case["dst"]) < 1:
        return None
    src, dst, weights = map(math.prod, graphs.shapes(case))
    batch = round((elements - 2 * weights) / (2 * src + dst))
    return None if batch < 1 else (family, given | {"n": batch})


def _long_windows(draw, elements):
    """As in ASPP: three or five taps along an axis of 5 to 70 elements reach from
    once to twice its length."""
    rank = draw.weighted({1: 0.2, 2: 0.6, 3: 0.2})
    side = draw.whole(5, 70 if rank < 3 else 20)
    taps = draw.weighted({3: 4, 5: 1} if rank < 3 else {3: 1})
    dilation = max(1, round(side * draw.real(1, 2) / (taps - 1)))
    given = {
        "in": _channels(draw, 8),
        "out": _channels(draw, 8),
        "src": [max(3, round(side * draw.real(0.8, 1.2))) for _ in range(rank)],
        "kernel": taps,
        "dilation": dilation,
        "pad": (taps - 1) * dilation // 2,
        "transposed": draw.chance(0.2),
    }
    case = graphs.complete("convolution", given | {"n": 1})
    src, dst, weights = map(math.prod, graphs.shapes(case))
    batch = round((elements - 2 * weights) / (2 * src + dst))
    return None if batch < 1 else ("long windows", given | {"n": batch})


def line(drawn):
    """A problem in one line."""
    case = drawn["case"]
    place = f"{drawn['layout']} {drawn['dtype']}"

    def product(sizes):
        return "x".join(map(str, sizes))

    if case["kind"] == "interpolation":
        rule = " scales " + product(case["scales"]) if case["scales"] else ""
        return (
            f"{case['n']}x{case['c']} {product(case['src'])} -> "
            f"{product(case['dst'])} {case['mode']} "
            f"{case['coordinate_transformation_mode']}{rule} {place}"
        )
    parts = [
        f"{case['n']}x{case['in']} {product(case['src'])} -> {case['out']}",
        product(graphs.per_axis(case, "kernel")),
    ]
    for key, usual in (("stride", 1), ("pad", 0), ("dilation", 1), ("groups", 1)):
        if case[key] != usual:
            value = case[key]
            text = product(value) if isinstance(value, list) else value
            parts.append(f"{key} {text}")
    if case["transposed"]:
        parts.append("transposed")
    return ", ".join(parts) + f", {place}"


def _taps(case):
    """The most outputs of a row that one column of src is a tap of. Of long rows
    both ends are counted."""
    src, dst = case["src"][-1], case["dst"][-1]
    mode = case["coordinate_transformation_mode"]
    nearest = case["mode"] == "nearest"
    step = fractions.Fraction(src, dst)
    if case["scales"]:
        step = 1 / fractions.Fraction(case["scales"][-1])
    start = (step - 1) / 2 if mode == "half_pixel" else fractions.Fraction(0)
    if mode == "align_corners":
        step = fractions.Fraction(src - 1, max(1, dst - 1))
    if nearest and mode != "asymmetric":
        start += fractions.Fraction(1, 2)
    # In whole numbers: x = (first + o * each) / whole.
    whole = math.lcm(step.denominator, start.denominator)
    first, each = int(start * whole), int(step * whole)
    counts = {}
    most = 2048
    outputs = range(dst)
    if dst > 2 * most:
        outputs = [*range(most), *range(dst - most, dst)]
    for output in outputs:
        place = first + output * each
        low = max(0, place // whole)
        both = not nearest and place > 0 and place % whole and low + 1 < src
        for tap in [min(low, src - 1), *([low + 1] if both else [])]:
            counts[tap] = counts.get(tap, 0) + 1
    return max(counts.values())


def facts(drawn):
    """What a rule of src/gpu/measured_*.cpp may ask of a problem."""
    case = drawn["case"]
    found = {
        "type": drawn["dtype"],
        "layout": drawn["layout"],
        "rank": len(case["src"]),
        "bytes": graphs.moved_bytes(case, drawn["dtype"]),
        "rows": case["src"][-2] if len(case["src"]) > 1 else 1,
        "columns": case["src"][-1],
        "batch": case["n"],
    }
    if case["kind"] == "interpolation":
        return found | {
            "channels": case["c"],
            "mode": case["mode"],
            "taps": _taps(case),
            "planes": case["n"] * case["c"],
        }
    return found | {
        "family": drawn["family"],
        "channels": case["in"],
        "channels out": case["out"],
        "groups": case["groups"],
        "channels a group": case["in"] // case["groups"],
        "taps": math.prod(graphs.per_axis(case, "kernel")),
        "stride": case["stride"],
        "dilation": case["dilation"],
    }
