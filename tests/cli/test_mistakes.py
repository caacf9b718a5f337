"""Every mistake is one sentence on stderr and exit code 2, never a traceback, with advice for the command line."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from command_line import run
from onnx_graphs import relu_network
from regionscope.cli.load import wrong_shape
from regionscope.network.onnx import OnnxNetwork

PLANE = "plane = {0 = [0, 100], 2 = [-1, 1], 1 = 5, 3 = 0.5}"
BOX = ":build --box -1 1"  # :NAME stands for --model net.py:NAME
COUNT = "count :four --data x4.npy"
COMPLEXITY = "complexity :six --data x6.npy --dims 3"
MISTAKES = {
    # models
    "regions --box -1 1": "Expected --model WHERE:NAME, got none. Pass the function that builds the network.",
    "regions --model nothere.py:build --box -1 1": "model file, got 'nothere.py'",
    "regions :cnn --box -1 1": "--input-shape",
    "regions :cnn --points x16.npy --input-shape 4x4": "such as 2 or 3,32,32",
    "regions :cnn --points x16.npy": "shape",
    "decisions :smooth --box -1 1": "GELU",
    "regions :Untraceable --box -1 1 --input-shape 2": "forward",
    "regions :Silent --points segment.npy": "at least one output",
    "regions :sparse --points segment.npy": "to_dense",
    "count :silu --data images.npy --method exact": "SiLU",
    "regions :Several --box -1 1 --input-shape 2": "Choose it with --head: one of 'hidden', 'logits'.",
    "regions :Pair --box -1 1 --input-shape 2 --head logits": "for --head 'logits', got a tuple. Pass an index.",
    "count :Several --data x2.npy": "Choose them with --head, one of 'hidden', 'logits'.",
    f"{COUNT} --head logits": "Leave --head out.",
    # points
    "regions :build --points nothere.npy": "does not exist",
    "decisions :build --points twice.npy": "same",
    "decisions :build --points x2.npy": "got 30, whose hull has 29 dimensions",
    "decisions :build --points net.py": "Expected an .npy, .npz, .csv or .pt file of numbers, got net.py. Write",
    "regions :build --points claims.npy": "Expected an .npy, .npz, .csv or .pt file of numbers, got claims.npy",
    "count :build --data times.npy": "real numbers",
    "count :build --data labelled.csv": "got 3 in each row. Remove the last column if it holds labels.",
    "count :four --data images.npy": "got (1, 2, 2). Add --input-shape 4.",
    "complexity :six --data one6.npy --test test6.npy --dims 3": "in one6.npy, one in each row, got shape (1, 6)",
    f"{COMPLEXITY} --test x4.npy": "failed on inputs of shape (7, 4)",
    # slices
    "regions :build": "--box LO HI and --slice FILE.toml, got none.",
    f"regions {BOX} --points triangle.npy": "and --slice FILE.toml, got several.",
    "regions :build --box a b": "Expected two numbers for --box, got 'a', 'b'. Write --box 0 1, for example.",
    "regions :build --box -1e300 1e300": "at most 1e+100, got 1e+300, for which sizes overflow. Use another",
    "regions :four --plane 0=0:1,9=0:1,1=0,2=0,3=0": "Expected inputs 0 to 3, the only ones of the network, got 9.",
    "regions :four --plane 0=0:1,1=0:1": "got no value for 2, 3. Add values, for example 2=0,3=0, or",
    "regions :four --plane 0=1:0,1=0:1,2=0,3=0": "with a range LO < HI for two inputs",
    "regions :four --plane 0=0:1,1=0,2=0,3=0": "for two inputs and one number for each other input, got --plane 0=0",
    "regions :four --plane first": "with each input once, got 'first'. Replace the letters by numbers.",
    "regions :four --slice nothing.toml": "Expected an existing slice file, got 'nothing.toml'",
    "regions :four --slice x4.npy": "Expected a TOML file, got 'x4.npy'",
    # numbers, limits and devices
    f"regions {BOX} --device moon": "got 'moon'",
    f"regions {BOX} --max-regions 3": "regions, got more after 'relu1'. Raise --max-regions or use a smaller slice.",
    f"quickstart --seed {2**70}": "from 0 to 2^64 - 1, got 1180591620717411303424",
    # files to write
    f"regions {BOX} -o out.gif": ".png",
    f"regions {BOX} -o nothere/out.png": "does not exist",
    f"regions {BOX} -o .": "Expected an --output file that ends in .png, .pdf, .svg, .json or .npz, got '.'",
    "regions :cube --box -1 1 -o out.png": "dimension 1 or 2",
    f"regions {BOX} --count-only -o out.npz": "without --certify or an .npz file",
    "quickstart -o net.py": "is a file",
    f"{COUNT} --dim 3 -o out.png": "dimension 1 or 2",
    f"{COMPLEXITY} -o out.txt": "ends in .png",
    # options of a command
    "decisions :costs --box -3 3 --class-names one,two": "Expected 5 class names, got 2. Pass one name for each class",
    "decisions :costs --box -3 3 --class-names a,,c,d,e": "Expected --class-names such as cat,dog, got 'a,,c,d,e'.",
    f"{COUNT} --class-names a,b": "Expected 3 class names, got 2.",
    "count :four --data one4.npy": "1 input",
    f"{COUNT} --dim 500": "Pass more inputs or lower --dim.",
    f"{COUNT} --slices 0": "a whole number of at least 1 for --slices, got '0'. Write --slices 100, for",
    f"{COUNT} --method best": "Expected one of grid, refined, exact for --method, got 'best'. Choose one",
    f"{COUNT} --until 2": "Expected --until to be a relative standard error",
    f"{COUNT} --through origin --dim 2": "Expected --dim 1 and neither alpha",
    f"{COUNT} --dask nowhere": "Expected --dask such as tcp://host:8786",
    f"{COMPLEXITY} --layers act": "Choose from relu1, relu2",
    f"{COMPLEXITY} --radius -1": "Expected --radius to be positive, got -1.0.",
    f"{COMPLEXITY} --random 5 --domain 1 0": "Expected --domain LO HI with LO < HI, got (1.0, 0.0). Write --domain",
    # before the work, which would reach the limit
    "ask extremes :three --box -4 4 --max-regions 3": "Expected --index I for a network with 3 outputs",
    f"ask topology {BOX} --norm 2": "Expected --norm with lipschitz, got topology. Leave --norm out.",
    f"ask flips {BOX} --minus 1": "Expected --minus with extremes or lipschitz, got flips. Leave --minus out.",
    f"ask extremes {BOX} --class-names a": "Expected --class-names with flips or topology, got extremes.",
    f"ask lipschitz {BOX} --norm 3": "Expected a valid --norm, got '3'. Choose from 1, 2, inf",
    f"ask flips {BOX} -o a.png": "for flips, got dimension 2",
    "ask topology :three --points segment.npy -o a.png": "for topology, got dimension 1",
    "ask extremes :cube --box -1 1 --index 0 -o a.png": "dimension 3",
    f"level-set {BOX}": "Pass --index I for one output, or --index I --minus J for the difference of two.",
    f"level-set {BOX} --classes 0,9": "Number the classes from 0, or use --value for a network with",
    f"level-set {BOX} --classes a": "Expected --classes such as 3 or 3,5",
    f"level-set {BOX} --classes 0 --index 0": "Expected --classes or --index, got both. Pass one of them.",
    "level-set :line --box -1 1": "Run regionscope ask flips, or pass --points with 3 rows.",
    "level-set :Diamond --input-shape 3 --box -1 1 -o a.off": "file that ends in .ply, .stl, .png, .pdf, .svg,",
    "level-set :Diamond --input-shape 3 --box -1 1 -o none/a.ply": "does not exist",
    "level-set :Diamond --input-shape 2 --box -1 1 -o a.stl": "dimension 3 for an .stl file, got 2. Write",
    "level-set :Diamond --input-shape 2 --box -1 1 -o a.html": "dimension 3 for an .html page, got 2",
    "explore x2.npy": "got 'x2.npy', which is another file or damaged. Write one with Partition.save(path).",
    "verify a b --timeout -1": "Expected a number of at least 0 for --timeout, got '-1'.",
}


def claiming(*shape: int) -> bytes:
    """An array file whose header promises more than there is."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(64)


def sentence(command: str) -> str:
    """What a command that must fail says."""
    done = run(command)
    assert isinstance(done.exception, SystemExit), done.exception
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("regionscope: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("command", MISTAKES, ids=lambda command: command[:80])
def test_a_mistake_is_one_sentence_and_exit_code_2(command: str) -> None:
    Path("labelled.csv").write_text("a,b,label\n0.1,0.2,0\n0.3,0.4,1\n0.5,0.1,1\n")
    Path("claims.npy").write_bytes(claiming(10**12, 2))
    np.save("times.npy", np.zeros((3, 2), "m8[s]"))
    assert MISTAKES[command] in sentence(command)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("plan = {0 = [0, 1]}", "Expected a key of a.toml, got 'plan'. Did you mean 'plane'?"),
        (
            "",
            "Expected one of points, polygon, polyline, plane, box in a.toml, and scaling with a plane only, got none.",
        ),
        (f"{PLANE}\nbox = [0, 1]", "with a plane only, got plane, box. Keep one slice in the file."),
        ("box = [0, 1]\n[scaling]\n0 = {unit = 1}", "with a plane only, got box, scaling."),
        ("box = [0, 1, 2]", "Expected box = [LO, HI] in a.toml, got [0, 1, 2]. Write two numbers."),
        ("points = 3", 'Expected points = "FILE" in a.toml, got 3.'),
        ("plane = 3", "Expected a table [plane] with inputs from 0 as keys in a.toml, got 3."),
        ("plane = {0 = [0, 1], 1 = [0, 'b'], 2 = 0, 3 = 0}", "and one number for each other input, got "),
        (f"{PLANE}\n[scaling]\n0 = 3", "Expected 0 = {offset = A, unit = B} in [scaling] of a.toml, got 3."),
        (f"{PLANE}\n[scaling]\n0 = {{offset = 1, unit = 0}}", "Expected positive units in the scaling of a plane"),
    ],
)
def test_a_wrong_slice_file_is_one_sentence(text: str, message: str) -> None:
    Path("a.toml").write_text(text)
    assert message in sentence("regions :four --slice a.toml")


def test_a_property_with_too_many_inputs_names_the_option() -> None:
    relu_network(Path("net.onnx"), [4, 8, 1])
    bounds = [f"(declare-const X_{i} Real)(assert (>= X_{i} 0))(assert (<= X_{i} 1))" for i in range(4)]
    Path("p.vnnlib").write_text("\n".join([*bounds, "(declare-const Y_0 Real)(assert (>= Y_0 0))"]))
    assert "fix all but two inputs with --fix I=VALUE to verify" in sentence("verify net.onnx p.vnnlib")


def test_rows_that_lack_the_shape_of_an_onnx_file() -> None:
    class Acas(OnnxNetwork):
        def __init__(self) -> None:
            super(OnnxNetwork, self).__init__()
            self.input_shape = (1, 1, 5)

    said = "Expected inputs of shape (1, 1, 5), got (5,). Add --input-shape 1,1,5."
    assert wrong_shape(Acas(), (5,)) == said
    assert wrong_shape(Acas(), (1, 1, 5)) == ""
