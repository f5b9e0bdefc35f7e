"""Two panels, in SVG: cost against repository size, and against the number of patches.

`plot.py DATA.json OUT.svg`, run in the environment that has matplotlib.
"""

import json
import sys

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

OURS = {"map after a patch": "#1f5fa8", "sweep": "#2a8f5b", "spike_edit_file": "#7a4fa3"}
DISKS = {"disk": "#c9b3dd", "tmpfs": "#7a4fa3"}
STYLE = {"color": "#8a8a8a", "linestyle": "--"}


def main(data: str, out: str) -> None:
    """Read the points, write the picture."""
    with open(data, encoding="utf-8") as file:
        points = json.load(file)
    mpl.rcParams.update({"svg.hashsalt": "spike", "font.size": 9, "svg.fonttype": "none"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), constrained_layout=True)
    for name, curve in points["by_size"].items():
        xs, ys = zip(*curve, strict=True)
        style = {"color": OURS[name]} if name in OURS else STYLE
        left.plot(xs, ys, marker="o", markersize=3, **style)
        left.annotate(
            name, (xs[-1], ys[-1]), xytext=(5, 0), textcoords="offset points", va="center"
        )
    left.set(xscale="log", yscale="log", xlabel="files in the repository", ylabel="milliseconds")
    left.set_title("by repository size (dashed: git)", loc="left")
    left.set_xlim(right=left.get_xlim()[1] * 100)
    left.set_xticks([100, 1_000, 10_000, 100_000], ["100", "1,000", "10,000", "100,000"])
    left.minorticks_off()
    for name, curve in points["by_patch"].items():
        xs, ys = zip(*curve, strict=True)
        right.plot(xs, ys, marker="o", markersize=3, label=name, color=DISKS[name])
    right.set_yscale("log")
    right.legend(frameon=False)
    right.set(xlabel="patches in the spike", ylabel="milliseconds")
    right.set_title("one spike_edit_file over stdio, by patches before it", loc="left")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.2)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
