"""Check certificates of regionscope with integers alone: no import of regionscope, no floating point.

    python tools/check_certificate.py certificate.json ...

A certificate holds a network as integer matrices and pieces, a slice, the activation patterns of all regions, the pairs
of regions that share a wall, and the counts. The argument that is checked, for every region of the list:

1. The set where its pattern holds is a polytope with inner points, computed here by cutting the slice.
2. Behind each of its facets that is not on the border lies exactly one region of the list: their patterns differ only
   in units that are zero on this facet. Such regions share the whole facet.

All patterns are different, and the slice is connected, so the list is complete. The counts follow from the patterns,
from the equality of integer functions, and from the labels. Before that: nonlinearities are continuous, and no corner
of the slice is missing.
"""

import json
import math
import sys
from itertools import accumulate


class Fault(Exception):
    """What is wrong with a certificate."""


class Tensor:
    """Affine functions a_1 c_1 + ... + a_k c_k + a_0 of the slice coordinates: integer rows over one denominator."""

    def __init__(self, rows, over):
        self.rows, self.over = rows, over


def check_form(document):
    """Raise Fault unless the format is known, denominators are positive, and nonlinearities are continuous."""
    if document["format"] != "regionscope certificate 1":
        raise Fault(f"Expected the format 'regionscope certificate 1', got {document['format']!r}")
    fractions = [document["slice"]["inputs"]]
    for step in document["network"]["steps"]:
        fractions += [step["shift"], *step["terms"]] if step["kind"] == "affine" else []
        if step["kind"] == "pieces":
            at, slopes, shifts = step["at"], step["slopes"], step["shifts"]
            fractions += [at, slopes, shifts, {"over": step["divisor"]}]
            for p, level in enumerate(at["numbers"]):
                for a, b, c, d in zip(*slopes["numbers"][p : p + 2], *shifts["numbers"][p : p + 2], strict=True):
                    if (b - a) * level * shifts["over"] + (d - c) * slopes["over"] * at["over"] != 0:
                        raise Fault("a nonlinearity is not continuous")
                if p and level <= at["numbers"][p - 1]:
                    raise Fault("thresholds are not ascending")
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
    parts = [(values[term["source"]], term) for term in step["terms"]]
    shift = step["shift"]
    over = math.lcm(shift["over"], *(tensor.over * term["over"] for tensor, term in parts))
    factor = over // shift["over"]
    rows = [[0] * (width - 1) + [number * factor] for number in shift["numbers"]]
    for tensor, term in parts:
        factor = over // (tensor.over * term["over"])
        starts, columns, numbers = term["starts"], term["columns"], term["numbers"]
        for i, row in enumerate(rows):
            for j in range(starts[i], starts[i + 1]):
                weight, source = numbers[j] * factor, tensor.rows[columns[j]]
                for a in range(width):
                    row[a] += weight * source[a]
    return Tensor(rows, over)


def folded(step, tensor, own):
    """The constraints of a fold, each with (unit, threshold or candidate), and the result on these pieces."""
    named = []
    if step["kind"] == "largest":
        for unit, group in enumerate(step["groups"]):
            best = tensor.rows[group[own[unit]]]
            for j, member in enumerate(group):
                if member != group[own[unit]]:
                    row = [a - b for a, b in zip(best, tensor.rows[member], strict=True)]
                    if not any(row) and j < own[unit]:
                        raise Fault("a pattern does not name the first of equal candidates")
                    named.append(((unit, j), row))
        rows = [tensor.rows[group[piece]] for group, piece in zip(step["groups"], own, strict=True)]
        return named, Tensor(rows, tensor.over)
    at, slopes, shifts = step["at"], step["slopes"], step["shifts"]
    for unit, row in enumerate(tensor.rows):
        for t, level in enumerate(at["numbers"]):
            above = [number * at["over"] for number in row]
            above[-1] -= level * tensor.over
            if not any(above) and own[unit] > t:
                raise Fault("a unit that is at its threshold everywhere counts as above it")
            named.append(((unit, t), above if own[unit] > t else [-number for number in above]))
    of_slopes, of_shifts = tensor.over * slopes["over"] * step["divisor"], shifts["over"] * step["divisor"]
    over = math.lcm(of_slopes, of_shifts)
    rows = []
    for unit, row in enumerate(tensor.rows):
        slope = slopes["numbers"][own[unit]][unit] * (over // of_slopes)
        rows.append([slope * number for number in row])
        rows[-1][-1] += shifts["numbers"][own[unit]][unit] * (over // of_shifts)
    return named, Tensor(rows, over)


class Network:
    """The steps of a network on a slice; regions are asked for in the order of their patterns, and share work."""

    def __init__(self, document):
        self.steps, self.about, inputs = document["network"]["steps"], document["network"], document["slice"]["inputs"]
        self.width, self.start = len(inputs["numbers"][0]), Tensor(inputs["numbers"], inputs["over"])
        self.units = [self._units(step) for step in self.steps]
        self.saved = []  # (pieces of the fold, values, constraints) before each fold, of the last pattern

    def _units(self, step):
        if step["kind"] == "affine":
            return 0
        return len(step["groups"]) if step["kind"] == "largest" else len(step["slopes"]["numbers"][0])

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
        return named, values[self.about["output"]]


def value(row, point):
    """Of an affine function at a homogeneous point, times its positive last coordinate."""
    return sum(a * b for a, b in zip(row, point, strict=True))


def cut(points, row, bit, dim):
    """The corners (point, bits of the constraints that are zero) of the part where ``row`` >= 0."""
    values = [value(row, point) for point, _ in points]
    kept = [(p, zero | (1 << bit if v == 0 else 0)) for (p, zero), v in zip(points, values, strict=True) if v >= 0]
    for (p, zero), above in zip(points, values, strict=True):
        for (n, other), below in zip(points, values, strict=True):
            if not above > 0 > below:
                continue
            common = zero & other
            rivals = sum(1 for _, third in points if third & common == common)
            if common.bit_count() >= dim - 1 and rivals == 2:
                mixed = [above * b - below * a for a, b in zip(p, n, strict=True)]
                divisor = math.gcd(*mixed)
                kept.append(([number // divisor for number in mixed], common | 1 << bit))
    return kept


def polytope(border, corners, named, dim):
    """Corners of the region, and for each facet the names of the constraints that are zero on it."""
    rows = [(("border",), row) for row in border] + named
    zeros = [sum(1 << i for i, row in enumerate(border) if value(row, corner) == 0) for corner in corners]
    points = list(zip(corners, zeros, strict=True))
    for bit, (_, row) in enumerate(rows):
        values = [value(row, point) for point, _ in points]
        if min(values) < 0:
            if max(values) <= 0:
                raise Fault("a pattern has no region")
            points = cut(points, row, bit, dim)
    zero = {}
    for name, row in rows:
        own = frozenset(i for i, (point, _) in enumerate(points) if value(row, point) == 0)
        if dim <= len(own) < len(points):
            zero.setdefault(own, set()).add(name)
    return [names for own, names in zero.items() if not any(own < other for other in zero)]


def differences(network, here, there):
    """Names of the constraints of pattern ``here`` that have to be zero between it and pattern ``there``."""
    place = 0
    for i, step in enumerate(network.steps):
        for unit in range(network.units[i]):
            a, b = here[place], there[place]
            place += 1
            if a != b:
                if step["kind"] == "pieces" and abs(a - b) != 1:
                    raise Fault("a unit jumps over a piece at a wall")
                yield (i, unit, b if step["kind"] == "largest" else min(a, b))


def check_region(network, document, pattern, around):
    """Raise Fault unless exactly one of the patterns ``around`` lies behind each facet of this region."""
    named, outputs = network.region(pattern)
    place = document["slice"]
    facets = polytope(place["border"]["numbers"], place["corners"]["numbers"], named, network.width - 1)
    nothing = {name for name, row in named if not any(row)}
    inner = [names for names in facets if ("border",) not in names]
    used = set()
    for other in around:
        wanted = {*differences(network, pattern, other)} - nothing
        matching = [i for i, names in enumerate(inner) if wanted and wanted <= names]
        if len(matching) != 1 or matching[0] in used:
            raise Fault("a wall is not a facet of its regions")
        used.add(matching[0])
    if len(used) != len(inner):
        raise Fault("a region has a facet without a wall")
    return tuple(map(tuple, outputs.rows))


def joined(n, pairs):
    """Number of connected components."""
    parent = list(range(n))

    def root(i):
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for a, b in pairs:
        parent[root(a)] = root(b)
    return sum(root(i) == i for i in range(n))


def check(document):
    """The counts that a certificate proves. Raises Fault if it proves nothing."""
    check_form(document)
    network, place = Network(document), document["slice"]
    check_slice(place["border"]["numbers"], place["corners"]["numbers"], network.width - 1)
    patterns = [[ord(letter) - 48 for letter in text] for text in document["regions"]]
    if len({*map(tuple, patterns)}) != len(patterns) or not patterns:
        raise Fault("two regions have the same pattern, or there is none")
    around = [[] for _ in patterns]
    for a, b in document["walls"]:
        if not 0 <= a < b < len(patterns):
            raise Fault("a wall names a region that does not exist")
        around[a].append(patterns[b])
        around[b].append(patterns[a])
    order = sorted(range(len(patterns)), key=patterns.__getitem__)
    outputs = {i: check_region(network, document, patterns[i], around[i]) for i in order}
    about, pairs = document["network"], zip(network.steps, network.units, strict=True)
    ends = [*accumulate(units for step, units in pairs if step["kind"] != "affine")]
    prefixes = [len({tuple(pattern[:end]) for pattern in patterns}) for end in ends]
    by_layer = dict(zip(about["layers"][: len(ends) - about["decision"]], prefixes, strict=False))
    n = len(patterns)
    linear = joined(n, [(a, b) for a, b in document["walls"] if outputs[a] == outputs[b]])
    counts = {"by_layer": by_layer, "activation": list(by_layer.values())[-1] if by_layer else 1, "linear": linear}
    if about["decision"]:
        alike = [(a, b) for a, b in document["walls"] if patterns[a][-1] == patterns[b][-1]]
        counts |= {"pieces": n, "decision": joined(n, alike)}
    if {name: document["counts"].get(name) for name in counts} != counts:
        raise Fault(f"the counts are {counts}, not {document['counts']}")
    return counts


def main(names):
    """Check these files; the exit code is 1 if one of them proves nothing."""
    failed = 0
    for name in names:
        with open(name, encoding="utf-8") as file:
            document = json.load(file, parse_float=lambda _: None)  # a certificate has none
        try:
            print(f"{name}: proved: {check(document.get('certificate', document))}")
        except (Fault, KeyError, IndexError, TypeError, ValueError) as fault:
            failed += 1
            print(f"{name}: not proved: {fault if isinstance(fault, Fault) else repr(fault)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
