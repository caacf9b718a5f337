"""Check certificates of regionscope with integers alone: no import of regionscope, no floating point.

    python tools/check_certificate.py certificate.json corpus/*.json ...

A certificate holds a network as integer matrices and pieces, a slice, the activation patterns of all regions, the pairs
of regions that share a wall, and the counts. The argument that is checked, for every region of the list:

1. The set where its pattern holds is a polytope with inner points, computed here by cutting the slice.
2. Behind each of its facets that is not on the border lies exactly one region of the list: their patterns differ only
   in units that are zero on this facet. Such regions share the whole facet.

All patterns are different, no two of them hold on common inner points, and the slice is connected: all regions are
listed. The counts follow from the patterns, from the equality of integer functions, and from the labels. Before that:
folds are continuous, no corner of the slice is missing, and the decision is that of the outputs. A file of the
corpus also has other counts, which are checked, too. A tensor is a list of affine functions
a_1 c_1 + ... + a_k c_k + a_0 of the slice coordinates: integer rows over one denominator.
"""

import json
import math
import sys
from itertools import accumulate


class Fault(Exception):
    """What is wrong with a certificate."""


def check_form(document):
    """Raise Fault unless the format is known, denominators are positive, and folds are continuous."""
    if document["format"] != "regionscope certificate 1":
        raise Fault(f"Expected the format 'regionscope certificate 1', got {document['format']!r}")
    fractions, about = [*document["slice"].values()], document["network"]
    silent = [not step["writes"] for step in about["steps"] if step["kind"] != "affine"]
    for step in about["steps"]:
        fractions += [step["shift"], *step["terms"]] if step["kind"] == "affine" else []
        if step["kind"] == "pieces":
            at, slopes, shifts = step["at"], step["slopes"], step["shifts"]
            fractions += [at, slopes, shifts, {"over": step["divisor"]}]
            for p, level in enumerate(at["numbers"]):
                for a, b, c, d in zip(*slopes["numbers"][p : p + 2], *shifts["numbers"][p : p + 2], strict=True):
                    if (b - a) * level * shifts["over"] + (d - c) * slopes["over"] * at["over"] != 0:
                        raise Fault("a fold is not continuous")
            if at["numbers"] != sorted({*at["numbers"]}) or len(slopes["numbers"]) != len(at["numbers"]) + 1:
                raise Fault("thresholds are not ascending, or not one fewer than pieces")
    if not len({*about["layers"]}) == len(about["layers"]) == len(silent):
        raise Fault("folds do not have one name each")
    if any(silent[:-1]) or any(silent) != bool(about["decision"]):
        raise Fault("a fold writes nothing, or the decision is not the last one")
    if min(each["over"] for each in fractions) <= 0:
        raise Fault("a denominator is not positive")


def check_slice(border, corners, dim):
    """Raise Fault unless every corner is on ``dim`` independent sides, and each of its edges ends in one other corner.
    The edges of a polytope connect all its corners, so none is missing then."""
    zeros = []
    for corner in corners:
        values = [value(row, corner) for row in border]
        zeros.append({i for i, number in enumerate(values) if number == 0})
        sides = [border[i][:-1] for i in zeros[-1]]
        if corner[-1] <= 0 or min(values) < 0 or len(sides) != dim or determinant(sides) == 0:
            raise Fault("a corner of the slice does not fit its border")
    if any(sum(zero - {side} <= other for other in zeros) != 2 for zero in zeros for side in zero):
        raise Fault("an edge of the slice does not have two corners")


def determinant(rows):
    """Of a small integer matrix, by its first row."""
    minors = ([row[:j] + row[j + 1 :] for row in rows[1:]] for j in range(len(rows)))
    return sum((-1) ** j * rows[0][j] * determinant(minor) for j, minor in enumerate(minors)) if rows else 1


def affine(step, values, width):
    """The result of an affine step."""
    parts, shift = [(values[term["source"]], term) for term in step["terms"]], step["shift"]
    over = math.lcm(shift["over"], *(below * term["over"] for (_, below), term in parts))
    rows = [[0] * (width - 1) + [number * (over // shift["over"])] for number in shift["numbers"]]
    for (sources, below), term in parts:
        factor = over // (below * term["over"])
        starts, columns, numbers = term["starts"], term["columns"], term["numbers"]
        for i, row in enumerate(rows):
            for j in range(starts[i], starts[i + 1]):
                weight, source = numbers[j] * factor, sources[columns[j]]
                row[:] = [number + weight * more for number, more in zip(row, source, strict=True)]
    return rows, over


def folded(step, tensor, own):
    """The constraints of a fold, each with (unit, threshold or candidate), and the result on these pieces."""
    named, (sources, below) = [], tensor
    if step["kind"] == "largest":
        for unit, group in enumerate(step["groups"]):
            best = sources[group[own[unit]]]
            for j, member in enumerate(group):
                if j != own[unit]:
                    row = [a - b for a, b in zip(best, sources[member], strict=True)]
                    if not any(row) and j < own[unit]:
                        raise Fault("a pattern does not name the first of equal candidates")
                    named.append(((unit, j), row))
        return named, ([sources[group[piece]] for group, piece in zip(step["groups"], own, strict=True)], below)
    at, slopes, shifts = step["at"], step["slopes"], step["shifts"]
    of_slopes, of_shifts = below * slopes["over"] * step["divisor"], shifts["over"] * step["divisor"]
    over, rows = math.lcm(of_slopes, of_shifts), []
    for unit, (row, piece) in enumerate(zip(sources, own, strict=True)):
        for t, level in enumerate(at["numbers"]):
            above = [number * at["over"] for number in row]
            above[-1] -= level * below
            if not any(above) and piece > t:
                raise Fault("a unit that is at its threshold everywhere counts as above it")
            named.append(((unit, t), above if piece > t else [-number for number in above]))
        slope = slopes["numbers"][piece][unit] * (over // of_slopes)
        rows.append([slope * number for number in row])
        rows[-1][-1] += shifts["numbers"][piece][unit] * (over // of_shifts)
    return named, (rows, over)


class Network:
    """The steps of a network on a slice; regions are asked for in the order of their patterns, and share work."""

    def __init__(self, document):
        self.steps, self.about, inputs = document["network"]["steps"], document["network"], document["slice"]["inputs"]
        self.width, self.start = len(inputs["numbers"][0]), (inputs["numbers"], inputs["over"])
        many = {"affine": lambda _: (), "largest": lambda s: s["groups"], "pieces": lambda s: s["slopes"]["numbers"][0]}
        self.units = [len(many[step["kind"]](step)) for step in self.steps]
        self.saved = []  # (pieces of the fold, values, constraints) before each fold, of the last pattern

    def region(self, pattern):
        """Constraints with names (step, unit, threshold or candidate), and the outputs."""
        if len(pattern) != sum(self.units) or min(pattern, default=0) < 0:
            raise Fault("a pattern has the wrong length, or a piece that does not exist")
        values, named, first, kept, place = {self.about["input"]: self.start}, [], 0, 0, 0
        for own, index, before, rows in self.saved:
            values, named, first = before, rows, index
            if own != pattern[place : place + len(own)]:
                break
            kept, place = kept + 1, place + len(own)
        del self.saved[kept:]
        for i in range(first, len(self.steps)):
            step = self.steps[i]
            if step["kind"] == "affine":
                values = {**values, step["writes"]: affine(step, values, self.width)}
                continue
            own = pattern[place : place + self.units[i]]
            place += self.units[i]
            self.saved.append((own, i, values, named))
            found, result = folded(step, values[step["source"]], own)
            named = named + [((i, *name), row) for name, row in found]
            values = {**values, step["writes"]: result} if step["writes"] else values
        outputs, last = values[self.about["output"]], self.steps[-1]
        if self.about["decision"]:  # the largest of all outputs, or whether the only one is above 0
            asked = last["groups"] if last["kind"] == "largest" else [last["at"]["numbers"]] * self.units[-1]
            if asked != [[*range(len(outputs[0]))]] or values[last["source"]] != outputs:
                raise Fault("the last fold does not decide between the outputs")
        return named, outputs


def value(row, point):
    """Of an affine function at a homogeneous point, times its positive last coordinate."""
    return sum(a * b for a, b in zip(row, point, strict=True))


def lowest(point):
    """The homogeneous point without common divisors."""
    return [number // math.gcd(*point) for number in point]


def cut(points, values, bit, dim):
    """The corners (point, bits of the constraints that are zero) of the part where the constraint ``bit`` is >= 0."""
    kept = [(p, zero | (1 << bit if v == 0 else 0)) for (p, zero), v in zip(points, values, strict=True) if v >= 0]
    for (p, zero), above in zip(points, values, strict=True):
        for (n, other), below in zip(points, values, strict=True):
            common, crossed = zero & other, above > 0 > below
            if crossed and common.bit_count() >= dim - 1 and sum(o & common == common for _, o in points) == 2:
                kept.append((lowest([above * b - below * a for a, b in zip(p, n, strict=True)]), common | 1 << bit))
    return kept


def polytope(border, corners, named, dim):
    """Corners of the region in lowest terms, and for each facet the names of the constraints that are zero on it."""
    rows = [(("border",), row) for row in border] + named
    points = [(lowest(c), sum(1 << i for i, row in enumerate(border) if value(row, c) == 0)) for c in corners]
    for bit, (_, row) in enumerate(rows):
        values = [value(row, point) for point, _ in points]
        if min(values) < 0:
            if max(values) <= 0:
                raise Fault("a pattern has no region")
            points = cut(points, values, bit, dim)
    zero: dict[frozenset[int], set[object]] = {}
    for name, row in rows:
        own = frozenset(i for i, (point, _) in enumerate(points) if value(row, point) == 0)
        if dim <= len(own) < len(points):
            zero.setdefault(own, set()).add(name)
    return [tuple(p) for p, _ in points], [names for own, names in zero.items() if not any(own < o for o in zero)]


def differences(network, here, there):
    """Names of the constraints of pattern ``here`` that have to be zero between it and pattern ``there``."""
    names = [(i, step["kind"], unit) for i, step in enumerate(network.steps) for unit in range(network.units[i])]
    changed = ((*name, a, b) for name, a, b in zip(names, here, there, strict=True) if a != b)
    return {(i, unit, b if kind == "largest" else min(a, b)) for i, kind, unit, a, b in changed}


def check_region(network, border, corners, pattern, around):
    """Outputs and corners of a region. Raise Fault unless one of the patterns ``around`` lies behind each facet."""
    named, outputs = network.region(pattern)
    corners, facets = polytope(border, corners, named, network.width - 1)
    nothing = {name for name, row in named if not any(row)}
    inner = [names for names in facets if ("border",) not in names]
    changes = [differences(network, pattern, other) - nothing for other in around]
    matching = [[i for i, names in enumerate(inner) if change and change <= names] for change in changes]
    if sorted(matching) != [[i] for i in range(len(inner))]:
        raise Fault("the walls of a region are not its facets")
    return outputs[0], corners


def joined(n, pairs):
    """For each of n nodes the node that stands for its connected component."""
    part, members = list(range(n)), [[i] for i in range(n)]
    for pair in pairs:
        small, large = sorted((part[i] for i in pair), key=lambda i: len(members[i]))
        if small != large:
            members[large] += members[small]
            for i in members[small]:
                part[i] = large
    return part


def topology(labels, regions, corners, border):
    """Components and holes of each class on a plane. A hole is a component of the complement that does not reach the
    border; there, a common corner connects. regions: the component of each piece."""
    n = len(labels)
    places: dict[object, int] = {}
    nodes = [[n + 1 + places.setdefault(point, len(places)) for point in own] for own in corners]
    outside = [(n, n + 1 + i) for point, i in places.items() if any(value(row, point) == 0 for row in border)]
    found = {}
    for label in sorted({*labels}):
        others = [i for i in range(n) if labels[i] != label]
        root = joined(n + 1 + len(places), outside + [(i, node) for i in others for node in nodes[i]])
        own = {regions[i] for i in range(n) if labels[i] == label}
        found[str(label)] = {"components": len(own), "holes": len({root[i] for i in others} - {root[n]})}
    return found


def check(document):
    """All counts that a certificate, or a file of the corpus, proves. Raises Fault if it proves nothing."""
    if "certificate" in document:
        found = check(document["certificate"])
        return compared(document["counts"], found | {"activation_by_layer": [*found["by_layer"].values()]})
    check_form(document)
    network, about, walls = Network(document), document["network"], document["walls"]
    border, corners = (document["slice"][name]["numbers"] for name in ("border", "corners"))
    check_slice(border, corners, network.width - 1)
    patterns = [[ord(letter) - 48 for letter in text] for text in document["regions"]]
    n = len(patterns)
    around: list[list[object]] = [[] for _ in patterns]
    if len({*map(tuple, patterns)}) != n or n == 0:
        raise Fault("two regions have the same pattern, or there is none")
    for a, b in walls:
        if not 0 <= a < b < n:
            raise Fault("a wall names a region that does not exist")
        around[a].append(patterns[b])
        around[b].append(patterns[a])
    order = sorted(range(n), key=patterns.__getitem__)
    known = {i: check_region(network, border, corners, patterns[i], around[i]) for i in order}
    ends = [*accumulate(u for step, u in zip(network.steps, network.units, strict=True) if step["kind"] != "affine")]
    layers = zip(about["layers"][: -1 if about["decision"] else None], ends, strict=False)
    by_layer = {name: len({tuple(pattern[:end]) for pattern in patterns}) for name, end in layers}
    linear = len({*joined(n, [(a, b) for a, b in walls if known[a][0] == known[b][0]])})
    counts = {"by_layer": by_layer, "activation": list(by_layer.values())[-1] if by_layer else 1, "linear": linear}
    if about["decision"]:
        labels = [pattern[-1] for pattern in patterns]
        regions = joined(n, [(a, b) for a, b in walls if labels[a] == labels[b]])
        counts |= {"pieces": n, "decision": len({*regions}), "labels": sorted(labels[i] for i in {*regions})}
        if network.width == 3:
            counts["topology"] = topology(labels, regions, [known[i][1] for i in range(n)], border)
    return compared(document["counts"], counts)


def compared(given, counts):
    """The counts. Raise Fault if one that is given is another, or if the numbers of regions are not given."""
    if any(given[name] != counts.get(name) for name in given) or not {"activation", "linear"} <= {*given}:
        raise Fault(f"the counts are {counts}, not {given}")
    return counts


def main(names):
    """Check these files; the exit code is 1 if one of them proves nothing."""
    failed = 0
    for name in names:
        try:
            with open(name, encoding="utf-8") as file:  # all numbers of a certificate are whole
                document = json.load(file, parse_float=lambda _: None, parse_constant=lambda _: None)
            print(f"{name}: proved: {check(document)}")
        except (Fault, AttributeError, LookupError, TypeError, ValueError) as fault:
            failed += 1
            print(f"{name}: not proved: {fault if isinstance(fault, Fault) else repr(fault)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
