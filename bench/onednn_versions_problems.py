#!/usr/bin/env python3
"""Prints problems for onednn_versions, one a line.

  onednn_versions_problems.py random SEED COUNT TYPE,...   any windows, strides
  onednn_versions_problems.py edges TYPE,...   1x1 with channels that do not
        fill a vector, narrow groups with dilations, windows deeper than src
  onednn_versions_problems.py times TYPE,...   layers to time
"""
import random
import sys


def line(direction, dtype, layout, groups, channels, src, kernel, strides,
         dilations, begin, end, n=1):
    sizes = (src, kernel, strides, dilations, begin, end)
    texts = ["x".join(map(str, size)) for size in sizes]
    return " ".join(map(str, (direction, dtype, layout, groups, n, *channels,
                              *texts)))


def products(n, groups, channels, src, kernel, strides, dilations, pads):
    total = n * channels[0] * channels[1] // groups
    for i, size in enumerate(src):
        window = (kernel[i] - 1) * dilations[i] + 1
        total *= kernel[i] * ((size + pads[i] - window) // strides[i] + 1)
    return total


def random_problems(seed, count, types):
    pick = random.Random(seed)
    made = 0
    while made < count:
        rank = pick.choice([1, 2, 2, 3])
        axes = range(rank)
        groups = pick.choice([1, 1, 1, 2, 4, 8, 32])
        sizes = [1, 2, 3, 4, 8, 16] if groups > 1 else [
            1, 2, 3, 4, 7, 8, 15, 16, 17, 24, 32, 41, 64]
        channels = [groups * pick.choice(sizes) for _ in range(2)]
        if groups > 4 and pick.random() < .5:
            channels = [groups, groups]
        kernel = [1] * rank if pick.random() < .25 else [
            pick.choice([1, 2, 3, 3, 4, 5, 7]) for _ in axes]
        strides = [pick.choice([1, 1, 2, 3]) for _ in axes]
        dilations = [1] * rank if pick.random() < .6 else [
            pick.choice([1, 2, 3]) for _ in axes]
        src = [pick.choice([1, 2, 3, 5, 7, 12] + [17, 30] * (rank < 3))
               for _ in axes]
        reach = [(kernel[i] - 1) * dilations[i] for i in axes]
        begin = [pick.choice([0, r // 2, r // 2, min(r, 3), r]) for r in reach]
        end = [p if pick.random() < .7 else pick.choice([0, r // 2, r, r + 1])
               for p, r in zip(begin, reach)]
        pads = [b + e for b, e in zip(begin, end)]
        n = pick.choice([1, 1, 2, 3])
        if any(src[i] + pads[i] <= reach[i] for i in axes) or products(
                n, groups, channels, src, kernel, strides, dilations,
                pads) > 3e7:
            continue
        made += 1
        yield line(pick.choice(["bwd_d", "bwd_w", "bwd_w", "fwd"]),
                   pick.choice(types),
                   pick.choice(["any", "ncx", "nxc", "nxc"]), groups, channels,
                   src, kernel, strides, dilations, begin, end, n)


def edges(types):
    ways = [(d, t, l) for d in ("bwd_w", "bwd_d", "fwd") for t in types
            for l in ("any", "nxc", "ncx")]
    for way in ways:
        for ic in (3, 4, 12, 20, 41, 64):
            for oc in (4, 8, 24, 41):
                for n, size in ((1, 32), (32, 16)):
                    for s in (1, 2):
                        yield line(*way, 1, (ic, oc), (size,) * 2, (1, 1),
                                   (s, s), (1, 1), (0, 0), (0, 0), n)
        for groups, each in ((8, 4), (32, 4), (8, 2), (4, 8), (2, 24)):
            for d in (1, 2, 3):
                for s in (1, 2):
                    yield line(*way, groups, [groups * each] * 2, (22, 30),
                               (3, 3), (s, s), (d, d), (d, d), (d, d), 2)
        for channels in ((3, 64), (32, 2), (16, 32), (1, 16)):
            for kernel in ((7, 7, 7), (5, 3, 3), (7, 3, 3), (3, 3, 3)):
                pads = (3 if kernel[0] > 3 else 1, kernel[1] // 2,
                        kernel[2] // 2)
                for depth in (1, 2, 3, 5):
                    for s in ((2, 2, 2), (2, 1, 1), (1, 1, 1), (3, 3, 3)):
                        if depth + 2 * pads[0] >= kernel[0]:
                            yield line(*way, 1, channels, (depth, 9, 9),
                                       kernel, s, (1, 1, 1), pads, pads)


def times(types):
    layers = ((1, 3, 64, 224, 7, 2), (1, 64, 64, 56, 3, 1),
              (1, 256, 64, 56, 1, 1), (1, 128, 128, 56, 3, 2),
              (1, 256, 256, 14, 3, 1), (1, 1024, 256, 14, 1, 1),
              (144, 144, 144, 56, 3, 1))
    for direction in ("bwd_d", "bwd_w"):
        for dtype in types:
            for layout in ("any", "ncx", "nxc"):
                for groups, ic, oc, size, k, s in layers:
                    yield line(direction, dtype, layout, groups, (ic, oc),
                               (size,) * 2, (k,) * 2, (s,) * 2, (1, 1),
                               (k // 2,) * 2, (k // 2,) * 2, 2)
                for channels, s in (((32, 32), 1), ((32, 64), 2)):
                    yield line(direction, dtype, layout, 1, channels,
                               (32,) * 3, (3,) * 3, (s,) * 3, (1,) * 3,
                               (1,) * 3, (1,) * 3)


def main(arguments):
    kind = arguments[0] if arguments else ""
    if kind == "random" and len(arguments) == 4:
        lines = random_problems(int(arguments[1]), int(arguments[2]),
                                arguments[3].split(","))
    elif kind in ("edges", "times") and len(arguments) == 2:
        lines = {"edges": edges, "times": times}[kind](arguments[1].split(","))
    else:
        sys.exit(__doc__)
    for text in lines:
        print(text)


main(sys.argv[1:])
